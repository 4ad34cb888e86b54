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
) -> ConsumedMessage:
    """A message at this place."""
    return ConsumedMessage(TrackedOffset(TopicPartition(topic, partition), offset, assignment), key, value, headers, 0)
