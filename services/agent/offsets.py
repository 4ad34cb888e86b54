"""End offsets of a topic, over a connection of its own."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.common.errors import Retry
from services.common.kafka import Topic

SECONDS = 10.0


def end_offsets(bootstrap_servers: str, topic: Topic) -> Callable[[set[int]], dict[int, int]]:
    """A function that asks for the end offsets of some partitions of ``topic``; it raises Retry. Blocking."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def ends(partitions: set[int]) -> dict[int, int]:
        if not partitions:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(topic.name, partition): latest for partition in partitions}
        answers = admin.list_offsets(wanted, request_timeout=SECONDS)
        try:
            return {tp.partition: answer.result(timeout=SECONDS).offset for tp, answer in answers.items()}
        except (KafkaException, TimeoutError) as error:
            raise Retry(f"end offsets of {topic.name}: {error}") from error

    return ends
