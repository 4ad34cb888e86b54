"""How new the newest command is: every epoch so far is older."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.common.errors import Retry
from services.common.kafka import Brokers, client_properties, count_partitions

REQUEST_SECONDS = 5.0


def newest_timestamp(brokers: Brokers, topic: str) -> int:
    """Greatest timestamp of any message in ``topic``, milliseconds since 1970; 0 if it is empty. Blocks.

    Raises Retry while the brokers do not answer.
    """
    partitions = [TopicPartition(topic, number) for number in range(count_partitions(brokers, [topic])[topic])]
    request = {partition: OffsetSpec.max_timestamp() for partition in partitions}  # type: ignore[no-untyped-call]
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
    try:
        answers = admin.list_offsets(request, request_timeout=REQUEST_SECONDS)
        timestamps: list[int] = [answer.result(REQUEST_SECONDS).timestamp for answer in answers.values()]
    except (KafkaException, TimeoutError) as error:
        raise Retry(f"newest command: {error}") from error
    return max(0, *timestamps)
