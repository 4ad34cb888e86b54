"""What was written to one topic before a consumer came is taken in before others are.

As long as a consumer keeps up, what follows from a message comes after it. One that begins in the past, such as a
planner whose database was restored, finds cause and effect in two logs: which it is sent first is chance. So equal
partitions have an order: one of a later topic is fetched once that of the earlier has been taken in to where it ended
when they were assigned. What has come since has no effects yet that could be in the other log already.

A partition of a later topic whose equal is not ours is not fetched at all. That is so for a moment when such a topic is
new, and members of the group subscribe to it one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka.log_end import LogClient, end_offset
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicOrder:
    """Of topics with equally many partitions."""

    earlier: str
    is_later: Callable[[str], bool]
    """Whether a topic of this name waits for ``earlier``."""


class Client(LogClient, Protocol):
    """What it takes of librdkafka's consumer."""

    def pause(self, partitions: list[ClientPartition]) -> None:
        """Fetch nothing more of them."""

    def resume(self, partitions: list[ClientPartition]) -> None:
        """Fetch them again."""


class HeldPartitions:
    """Partitions of later topics that wait. For the thread that polls."""

    def __init__(self, order: TopicOrder, client: Client, offsets: OffsetTracker) -> None:
        self._order, self._client, self._offsets = order, client, offsets
        self._waiting: dict[int, list[ClientPartition]] = {}
        """By number of partition: those of later topics."""
        self._ends: dict[int, int | None] = {}
        """Likewise, where that of the earlier topic ended, if it is ours; None: not known yet."""

    def hold_partitions(self, assigned: Iterable[TopicPartition]) -> None:
        """These are assigned, and no others any more; to be called before anything of them is polled."""
        earlier, waiting = set[int](), defaultdict[int, list[ClientPartition]](list)
        for source in sorted(assigned):
            if source.topic == self._order.earlier:
                earlier.add(source.partition)
            elif self._order.is_later(source.topic):
                waiting[source.partition].append(ClientPartition(*source))
        self._waiting = dict(waiting)
        self._ends = dict.fromkeys(sorted(earlier & waiting.keys()))
        self._client.pause([each for held in waiting.values() for each in held])

    def release_partitions(self) -> None:
        """Have those fetched that need not wait any longer."""
        released = [number for number, end in self._known_ends() if self._is_taken_in(number, end)]
        for number in released:
            del self._ends[number]
        if released:
            self._client.resume([each for number in released for each in self._waiting.pop(number)])

    def _known_ends(self) -> list[tuple[int, int]]:
        for number, end in self._ends.items():
            if end is None:
                self._ends[number] = end_offset(self._client, TopicPartition(self._order.earlier, number))
                if self._ends[number] is None:
                    break  # the brokers do not answer: nothing is fetched either
        return [(number, end) for number, end in self._ends.items() if end is not None]

    def _is_taken_in(self, number: int, end: int) -> bool:
        taken_in = self._offsets.committable_offset(TopicPartition(self._order.earlier, number))
        return taken_in is not None and taken_in >= end
