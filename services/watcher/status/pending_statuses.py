"""Statuses that are not written yet: the newest of each resource, one writer per resource, namespaces in turn.

Filled and emptied by :mod:`reporter`. A resource that cannot be written for now delays no other, nor does a namespace
with thousands of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.kafka import ConsumedMessage, TopicPartition
from services.common.messages import WorkspaceResource
from services.common.queueing import Place, Wakeup, WorkQueue

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class PendingStatus:
    """A row, the message it came in, and how often it was tried."""

    row: WorkspaceResource
    message: ConsumedMessage
    delays: Backoff = field(default_factory=Backoff, compare=False)

    @property
    def identity(self) -> Identity:
        """The resource whose status it is."""
        return (self.row.kind, self.row.namespace, self.row.name)


class PendingStatuses:
    """Belongs to one event loop. Every item added is given back once: superseded, dropped, or taken and finished."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._waiting: dict[Identity, PendingStatus] = {}
        self._in_flight: dict[Identity, PendingStatus] = {}
        self._queue: WorkQueue[Identity] = WorkQueue()
        """In progress is what is in flight."""
        self._wakeup = Wakeup(self._clock)
        self._landed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add_item(self, item: PendingStatus) -> PendingStatus | None:
        """Let ``item`` wait its turn. Returns the older row of the same resource that need not be written any more."""
        identity = item.identity
        superseded = self._waiting.get(identity)
        self._waiting[identity] = item
        if superseded is None:  # or else it takes the turn of that one, its delay included
            self._queue.add_key(identity, Place(item.row.namespace))
            self._wakeup.wake_consumers()
        return superseded

    async def next_item(self) -> PendingStatus:
        """The next item that may be written; it is in flight until it is finished or set aside."""
        while (identity := self._queue.next_key(self._clock.time())) is None:
            await self._wakeup.wait_until(self._queue.next_due())
        item = self._in_flight[identity] = self._waiting.pop(identity)
        return item

    def finish_item(self, item: PendingStatus) -> None:
        """It was written, or given up."""
        self._queue.finish_key(item.identity)
        self._land(item)

    def set_item_aside(self, item: PendingStatus, seconds: float) -> PendingStatus | None:
        """It could not be written; try again after ``seconds``. Returns ``item`` if a newer one waits instead."""
        identity = item.identity
        superseded = identity in self._waiting
        self._waiting.setdefault(identity, item)
        self._queue.remove_key(identity)  # a newer one does not jump the delay
        self._queue.requeue_key_at(identity, self._clock.time() + seconds)
        self._land(item)
        return item if superseded else None

    async def drop_partitions(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Forget what waits of these partitions (of all if None), once what of them is being written has landed."""
        gone = None if partitions is None else set(partitions)
        self._forget(gone)
        while any(_is_of(item, gone) for item in self._in_flight.values()):
            self._landed.clear()
            await self._landed.wait()
            self._forget(gone)  # what landed may have been set aside

    def _land(self, item: PendingStatus) -> None:
        del self._in_flight[item.identity]
        self._landed.set()
        self._wakeup.wake_consumers()

    def _forget(self, partitions: set[TopicPartition] | None) -> None:
        for identity, item in list(self._waiting.items()):
            if _is_of(item, partitions):
                del self._waiting[identity]
                self._queue.remove_key(identity)


def _is_of(item: PendingStatus, partitions: set[TopicPartition] | None) -> bool:
    return partitions is None or item.message.tracked.source in partitions
