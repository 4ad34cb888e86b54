"""The end of a partition, as the brokers report it."""

from __future__ import annotations

from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka.offset_tracker import TopicPartition

QUESTION_SECONDS = 1.0
"""Timeout of a request. The caller asks again."""


class LogClient(Protocol):
    """The part of librdkafka's consumer that is needed."""

    def get_watermark_offsets(self, partition: ClientPartition, timeout: float) -> tuple[int, int] | None:
        """First offset and end. Raises KafkaException."""


def end_offset(client: LogClient, source: TopicPartition) -> int | None:
    """The offset after its last message; None if the brokers do not answer."""
    try:
        answer = client.get_watermark_offsets(ClientPartition(*source), QUESTION_SECONDS)
    except KafkaException:
        return None
    return answer[1] if answer is not None else None
