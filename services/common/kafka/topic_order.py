"""What was written to one topic before a consumer came is taken in before another topic is.

As long as a consumer keeps up, what follows from a message comes after it. One that begins in the past, such as a
planner whose database was restored, finds cause and effect in two logs: which it is sent first is chance. So equal
partitions have an order: one of the later topic is fetched once that of the earlier has been taken in to where it ended
when they were assigned. What has come since has no effects yet that could be in the other log already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka.log_end import LogClient, end_offset
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicOrder:
    """Of two topics with equally many partitions."""

    earlier: str
    later: str


class Client(LogClient, Protocol):
    """What it takes of librdkafka's consumer."""

    def pause(self, partitions: list[ClientPartition]) -> None:
        """Fetch nothing more of them."""

    def resume(self, partitions: list[ClientPartition]) -> None:
        """Fetch them again."""


class HeldPartitions:
    """Partitions of the later topic that wait. For the thread that polls."""

    def __init__(self, order: TopicOrder, client: Client, offsets: OffsetTracker) -> None:
        self._order, self._client, self._offsets = order, client, offsets
        self._ends: dict[int, int | None] = {}
        """By number of partition: where that of the earlier topic ended; None: not known yet."""

    def __contains__(self, source: TopicPartition) -> bool:
        return source.topic == self._order.later and source.partition in self._ends

    def hold_partitions(self, assigned: Iterable[TopicPartition]) -> None:
        """These are assigned, and no others any more; to be called before anything of them is polled."""
        numbers = {topic: {each.partition for each in assigned if each.topic == topic} for topic in self._topics}
        self._ends = dict.fromkeys(sorted(numbers[self._order.earlier] & numbers[self._order.later]))
        self._client.pause([ClientPartition(self._order.later, number) for number in self._ends])

    def release_partitions(self) -> None:
        """Have those fetched that need not wait any longer."""
        released = [number for number, end in self._known_ends() if self._is_taken_in(number, end)]
        for number in released:
            del self._ends[number]
        if released:
            self._client.resume([ClientPartition(self._order.later, number) for number in released])

    @property
    def _topics(self) -> tuple[str, str]:
        return self._order.earlier, self._order.later

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
