"""Which consumed messages are done with, and so up to where each partition may be committed. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Position:
    """Where a message is."""

    partition: int
    offset: int


@dataclass(slots=True)
class _Partition:
    open: OrderedDict[int, None] = field(default_factory=OrderedDict)
    next: int = 0

    @property
    def committable(self) -> int:
        return next(iter(self.open), self.next)


class Ledger:
    """Messages may be finished in any order; a partition is committable up to its first unfinished one."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = {}

    def begin(self, position: Position) -> None:
        """A message was taken up; within a partition offsets come in order."""
        partition = self._partitions.setdefault(position.partition, _Partition())
        partition.open[position.offset] = None
        partition.next = position.offset + 1

    def finish(self, position: Position) -> int | None:
        """Its effects are done. Returns the offset to commit if that moved; None also if it is not ours any more."""
        partition = self._partitions.get(position.partition)
        if partition is None or position.offset not in partition.open:
            return None
        before = partition.committable
        del partition.open[position.offset]
        return partition.committable if partition.committable != before else None

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are someone else's now."""
        for partition in partitions:
            self._partitions.pop(partition, None)
