"""Tracks how far each partition may be committed. Messages are acknowledged in any order, offsets committed in theirs.

All consumers of this product use it. Each assignment of a partition has its own number, and a tracked offset has the
number of its assignment. After a revocation, or when the partition has come back, an acknowledgement of the earlier
assignment has no effect: the new owner gets the message again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class TrackedOffset(NamedTuple):
    """The offset of a consumed message, and the number of its assignment."""

    source: TopicPartition
    offset: int
    assignment: int


@dataclass(slots=True)
class _Assignment:
    number: int
    next: int | None
    """The offset after the last tracked one; None until there is one, if the start is unknown."""
    committable: int | None
    is_stored: bool = True
    """Whether ``committable`` was handed out for a commit."""
    open: deque[int] = field(default_factory=deque)
    """Tracked offsets from the first unacknowledged one on."""
    acknowledged: set[int] = field(default_factory=set)
    """The acknowledged ones of ``open``."""


class OffsetTracker:
    """May be used from several threads. Offsets of a partition are tracked in their order."""

    def __init__(self) -> None:
        self._assignments: dict[TopicPartition, _Assignment] = {}
        self._number = 0
        self._lock = threading.Lock()

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions."""
        with self._lock:
            return sorted(self._assignments)

    def assign_partitions(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Assign partitions from these offsets on; None if only the broker knows. Earlier assignments stay."""
        with self._lock:
            self._number += 1
            for source, start in starts.items():
                self._assignments[source] = _Assignment(self._number, start, start)

    def revoke_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Revoke partitions, which may be another consumer's now."""
        with self._lock:
            for source in partitions:
                self._assignments.pop(source, None)

    def track_offset(self, source: TopicPartition, offset: int) -> TrackedOffset | None:
        """Track a consumed message. Returns None if it was tracked before, or its partition is not assigned."""
        with self._lock:
            assignment = self._assignments.get(source)
            if assignment is None or (assignment.next is not None and offset < assignment.next):
                return None
            assignment.open.append(offset)
            assignment.next = offset + 1
            return TrackedOffset(source, offset, assignment.number)

    def acknowledge_offset(self, tracked: TrackedOffset) -> None:
        """The message has had its effects. No effect if repeated, or after its assignment has ended."""
        with self._lock:
            assignment = self._current(tracked)
            if assignment is None or not assignment.open or tracked.offset < assignment.open[0]:
                return
            if tracked.offset > assignment.open[0]:
                assignment.acknowledged.add(tracked.offset)
                return
            first = assignment.open.popleft()
            while assignment.open and assignment.open[0] in assignment.acknowledged:
                first = assignment.open.popleft()
                assignment.acknowledged.discard(first)
            assignment.committable, assignment.is_stored = first + 1, False

    def is_current(self, tracked: TrackedOffset) -> bool:
        """Whether the message's assignment is still current."""
        with self._lock:
            return self._current(tracked) is not None

    def is_acknowledged(self, tracked: TrackedOffset) -> bool:
        """Whether the message was acknowledged in the current assignment."""
        with self._lock:
            assignment = self._current(tracked)
            if assignment is None or (assignment.open and tracked.offset >= assignment.open[0]):
                return assignment is not None and tracked.offset in assignment.acknowledged
            return True

    def next_offset(self, source: TopicPartition) -> int | None:
        """The offset after the last tracked message; None if not assigned, or nothing is known yet."""
        with self._lock:
            assignment = self._assignments.get(source)
            return None if assignment is None else assignment.next

    def committable_offset(self, source: TopicPartition) -> int | None:
        """All messages before this offset have had their effects; None if not assigned, or unknown."""
        with self._lock:
            assignment = self._assignments.get(source)
            return None if assignment is None else assignment.committable

    def first_open_offset(self, source: TopicPartition) -> int | None:
        """The offset up to which nothing is open, even if nothing was acknowledged; None if unknown."""
        with self._lock:
            assignment = self._assignments.get(source)
            if assignment is None:
                return None
            return assignment.committable if assignment.committable is not None else next(iter(assignment.open), None)

    def take_committable_offsets(self) -> dict[TopicPartition, int]:
        """The committable offsets that have changed since the last call."""
        with self._lock:
            moved: dict[TopicPartition, int] = {}
            for source, assignment in self._assignments.items():
                if not assignment.is_stored and assignment.committable is not None:
                    moved[source], assignment.is_stored = assignment.committable, True
            return moved

    def _current(self, tracked: TrackedOffset) -> _Assignment | None:
        assignment = self._assignments.get(tracked.source)
        return assignment if assignment is not None and assignment.number == tracked.assignment else None
