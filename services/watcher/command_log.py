"""What the watcher must know of the brokers before it sends: which topics there are, how many partitions, how far."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import Brokers, client_properties

REQUEST_SECONDS = 5.0

ResultT = TypeVar("ResultT")


class CommandLog:
    """Asks the brokers. Every method blocks, and raises Retry while they do not answer."""

    def __init__(self, brokers: Brokers) -> None:
        # Its own log lines would repeat, less clearly, what our errors say.
        self._admin = AdminClient(client_properties(brokers) | {"log_level": 0})

    def require(self, *topics: str) -> None:
        """Raises InvalidConfiguration if one of ``topics`` does not exist."""
        existing = _ask(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS)).topics
        for topic in topics:
            if topic not in existing:
                raise InvalidConfiguration(f"Kafka has no topic {topic}; run 'gitopsctl topics apply'")

    def count_partitions(self, topic: str) -> int:
        """How many partitions ``topic`` has now."""
        metadata = _ask(lambda: self._admin.list_topics(topic, timeout=REQUEST_SECONDS)).topics[topic]
        if not metadata.partitions:
            raise Retry(f"Kafka tells no partitions of {topic}: {metadata.error}")
        return len(metadata.partitions)

    def newest_timestamp(self, topic: str) -> int:
        """Greatest timestamp of any message in ``topic``, milliseconds since 1970; 0 if it is empty."""
        partitions = [TopicPartition(topic, number) for number in range(self.count_partitions(topic))]
        request = {partition: OffsetSpec.max_timestamp() for partition in partitions}  # type: ignore[no-untyped-call]
        answers = _ask(lambda: self._admin.list_offsets(request, request_timeout=REQUEST_SECONDS))
        timestamps: list[int] = [_result(answer).timestamp for answer in answers.values()]
        return max(0, *timestamps)


def _ask(call: Callable[[], ResultT]) -> ResultT:
    try:
        return call()
    except KafkaException as error:
        raise Retry(error.args[0].str()) from error


def _result(answer: Future[Any]) -> Any:
    return _ask(lambda: answer.result(REQUEST_SECONDS))
