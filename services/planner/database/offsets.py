"""Positions in the log: what a batch spans, and from where the next one continues."""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """The part of one partition that a batch has taken up."""

    topic: str
    partition: int
    expected: int
    """Where the database says that the effects so far end."""
    next: int
    """Where they end with this batch."""
