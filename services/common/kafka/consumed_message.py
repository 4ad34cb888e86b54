"""A consumed message, of any client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Message
from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka.offset_tracker import TopicPartition, TrackedOffset
from services.common.telemetry import metrics

Headers = Iterable[tuple[str, bytes | None]]


class ConsumedMessage(NamedTuple):
    """The content of a message, and where it was consumed.

    It is a tuple, because there are many thousands per second.
    """

    tracked: TrackedOffset
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Headers as the client returns them. They are rarely read."""
    timestamp: float
    """When it was written, in seconds since 1970."""

    @property
    def topic(self) -> str:
        """The topic it was consumed from."""
        return self.tracked.source.topic

    @property
    def partition(self) -> int:
        """The number of the partition it was consumed from."""
        return self.tracked.source.partition

    @property
    def offset(self) -> int:
        """Its offset there."""
        return self.tracked.offset


def source_of_message(message: Message) -> TopicPartition:
    """The partition that librdkafka read ``message`` from."""
    return TopicPartition(message.topic() or "", message.partition() or 0)


def source_of_partition(place: ClientPartition) -> TopicPartition:
    """A partition of librdkafka's."""
    return TopicPartition(place.topic, place.partition)


def consumed_message(message: Message, tracked: TrackedOffset) -> ConsumedMessage:
    """A message of librdkafka's."""
    headers: Any = message.headers()  # a list with values of bytes, whatever else the bindings' types allow
    return ConsumedMessage(tracked, message.key(), message.value(), headers or (), message.timestamp()[1] / 1000)


def measure_messages(service: str, messages: Sequence[ConsumedMessage]) -> None:
    """Count messages that ``service`` consumed just now, and observe how long they were on their way."""
    counts, now = Counter(message.topic for message in messages), time.time()
    for topic, count in counts.items():
        metrics.count_messages(service, topic, metrics.Direction.RECEIVED, count)
    hops = {topic: metrics.HOP.labels(service, topic) for topic in counts}
    for message in messages:
        hops[message.topic].observe(max(0.0, now - message.timestamp))
