"""Messages as they were consumed, for tests."""

from __future__ import annotations

from services.common.kafka import ConsumedMessage, TopicPartition, TrackedOffset
from services.common.kafka.consumed_message import Headers


def consumed(
    topic: str,
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    partition: int = 0,
    headers: Headers = (),
    assignment: int = 1,
    timestamp: float = 0,
) -> ConsumedMessage:
    """A message at this place."""
    tracked = TrackedOffset(TopicPartition(topic, partition), offset, assignment)
    return ConsumedMessage(tracked, key, value, headers, timestamp)
