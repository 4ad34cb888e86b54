"""Orders topics: messages written to one topic before a consumer started are processed before those of others.

While a consumer keeps up, the effects of a message come after it. A consumer that starts in the past, such as a planner
whose database was restored, finds cause and effect in two logs, and may get either first. So topics have ranks. A
partition is fetched once the partitions of its number in topics of lower ranks were processed to where they ended at
the assignment. Later messages have no effects yet that could be in the other log already.

A partition whose counterpart in the first topic is not ours is not fetched at all. That happens for a moment when a
topic is new, and members of the group subscribe to it one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka.log_end import LogClient, end_offset
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition

TopicOrder = Callable[[str], int | None]
"""The rank of a topic, by its name; 0: the first. None: it is not ordered; it waits for none, and none for it. Ordered
topics have the same number of partitions."""


class Client(LogClient, Protocol):
    """The part of librdkafka's consumer that is needed."""

    def pause(self, partitions: list[ClientPartition]) -> None:
        """Stop fetching these partitions."""

    def resume(self, partitions: list[ClientPartition]) -> None:
        """Fetch these partitions again."""


class PausedPartitions:
    """Partitions that wait for others. Used by the thread that polls."""

    def __init__(self, order: TopicOrder, client: Client, offsets: OffsetTracker) -> None:
        self._order, self._client, self._offsets = order, client, offsets
        self._waiting: dict[TopicPartition, list[TopicPartition]] = {}
        """The partitions that each one waits for; none: it waits for its counterpart in the first topic, which is not
        ours."""
        self._ends: dict[TopicPartition, int | None] = {}
        """Ends of the partitions that others wait for; None: not known yet."""

    def pause_partitions(self, assigned: Iterable[TopicPartition]) -> None:
        """Pause what has to wait, of exactly these assigned partitions. Called before anything of them is polled."""
        ranks = {source: rank for source in sorted(assigned) if (rank := self._order(source.topic)) is not None}
        self._waiting = {source: _earlier(source, ranks) for source, rank in ranks.items() if rank}
        self._ends = {each: None for earlier in self._waiting.values() for each in earlier}
        self._client.pause([ClientPartition(*source) for source in self._waiting])

    def resume_partitions(self) -> None:
        """Resume the partitions that need not wait any longer."""
        if not self._ends:
            return
        self._ask_for_ends()
        processed = {
            source for source, end in self._ends.items() if end is not None and self._is_processed(source, end)
        }
        released = [source for source, earlier in self._waiting.items() if earlier and processed.issuperset(earlier)]
        for source in released:
            del self._waiting[source]
        if released:
            self._client.resume([ClientPartition(*source) for source in released])
            self._ends = {each: self._ends[each] for earlier in self._waiting.values() for each in earlier}

    def _ask_for_ends(self) -> None:
        for source in [each for each, end in self._ends.items() if end is None]:
            del self._ends[source]
            self._ends[source] = end_offset(self._client, source)
            if self._ends[source] is None:
                return  # it is the last now: the others are asked for before it, a call later

    def _is_processed(self, source: TopicPartition, end: int) -> bool:
        processed = self._offsets.committable_offset(source)
        return processed is not None and processed >= end


def _earlier(source: TopicPartition, ranks: dict[TopicPartition, int]) -> list[TopicPartition]:
    """The partitions of the same number in topics of lower ranks; none if the first topic's is not among them."""
    found = [each for each, rank in ranks.items() if each.partition == source.partition and rank < ranks[source]]
    return found if any(ranks[each] == 0 for each in found) else []
