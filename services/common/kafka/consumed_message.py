"""A message as it was consumed, whichever client consumed it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Message

from services.common.kafka.offset_tracker import TrackedOffset
from services.common.telemetry import metrics


class ConsumedMessage(NamedTuple):
    """What a message holds, and where it was consumed. A tuple: many thousands are made a second."""

    tracked: TrackedOffset
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]
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


def consumed_message(message: Message, tracked: TrackedOffset) -> ConsumedMessage:
    """``message`` as librdkafka hands it out."""
    headers: Any = message.headers() or ()  # a list of bytes, whatever else the bindings' types allow
    return ConsumedMessage(
        tracked, message.key(), message.value(), decoded_headers(headers), message.timestamp()[1] / 1000
    )


def decoded_headers(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """Headers as clients hand them out; of several with one name the last."""
    return {name: value or b"" for name, value in headers}


def measure_messages(service: str, messages: Sequence[ConsumedMessage]) -> None:
    """Count messages that ``service`` took up just now, and observe how long they were on their way."""
    counts, now = Counter(message.topic for message in messages), time.time()
    for topic, count in counts.items():
        metrics.count_messages(service, topic, metrics.Direction.RECEIVED, count)
    hops = {topic: metrics.HOP.labels(service, topic) for topic in counts}
    for message in messages:
        hops[message.topic].observe(max(0.0, now - message.timestamp))
