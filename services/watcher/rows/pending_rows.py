"""Rows that wait to be written: the newest of each object, one write at a time per object, namespaces in turn.

Filled and emptied by :mod:`delivery`. An object that cannot be written for now delays no other object; neither does a
namespace with thousands of objects.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Generic

from services.common.backoff import Backoff
from services.common.clock import SystemClock
from services.common.kafka import ConsumedMessage, LatestMessages, TopicPartition
from services.common.queueing import Place, Workers, WorkQueue
from services.watcher.rows.row_types import RowT

FAILED = "failed"
"""The group of rows whose write failed. No wave waits for them."""

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class PendingRow(Generic[RowT]):
    """A row, the message it came in, and how often it was tried."""

    row: RowT
    message: ConsumedMessage
    delays: Backoff = field(default_factory=Backoff, compare=False)

    @property
    def identity(self) -> Identity:
        """The object that the row is about."""
        return (self.row.kind, self.row.namespace, self.row.name)


class PendingRows(Generic[RowT]):
    """Belongs to one event loop. Every item added is acknowledged, dropped or withdrawn."""

    def __init__(
        self,
        write: Callable[[PendingRow[RowT]], Coroutine[None, None, float | None]],
        acknowledge: Callable[[PendingRow[RowT]], None],
        on_defect: Callable[[BaseException], None],
        at_once: int,
        wave_of: Callable[[RowT], int],
    ) -> None:
        """At most ``at_once`` rows of a namespace are written at a time, by wave and then by arrival.

        ``write`` returns in how many seconds to try again, or None if the row is done. Any exception it raises is a
        defect.

        ``acknowledge`` is called with items that were written, and with those that a newer row of their object
        supersedes.
        """
        self._write = write
        self._wave_of = wave_of
        self._items: LatestMessages[Identity, PendingRow[RowT]] = LatestMessages(acknowledge)
        self._landed = asyncio.Event()
        self._queue: WorkQueue[Identity] = WorkQueue(limit_per_lane=at_once)
        self._workers = Workers(self._queue, self._work, SystemClock(), on_defect)

    def __len__(self) -> int:
        return len(self._items)

    def start(self, writers: int) -> None:
        """Start writing, with ``writers`` rows at a time."""
        self._workers.limit = writers
        self._workers.start()

    async def stop(self) -> None:
        """Cancel the writes under way."""
        await self._workers.stop()

    def add_item(self, item: PendingRow[RowT]) -> None:
        """Queue ``item``, or replace an older row of the same object, which keeps its turn and its delay."""
        is_queued = self._items.waiting_message(item.identity) is not None
        self._items.add_message(item.identity, item)
        if not is_queued:
            self._queue.add_key(item.identity, Place(item.row.namespace, self._wave_of(item.row)))
            self._workers.start_tasks()

    def withdraw_item(self, item: PendingRow[RowT]) -> None:
        """Leave it to the caller to acknowledge ``item``, which is being written."""
        self._items.withdraw_message(item.identity, item)

    async def drop_partitions(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Drop the waiting rows of these partitions (None: of all), after the writes under way for them have ended."""
        gone = None if partitions is None else set(partitions)
        self._forget(gone)
        while any(_is_of(item, gone) for item in self._items.in_progress):
            self._landed.clear()
            await self._landed.wait()
            self._forget(gone)  # what landed may have to be tried again

    async def _work(self, identity: Identity) -> float | None:
        item = self._items.start_message(identity)
        if item is None:
            return None  # dropped meanwhile
        try:
            seconds = await self._write(item)
            if seconds is None:
                self._items.acknowledge_message(identity, item)
            else:
                self._items.retry_message(identity, item)
                self._queue.remove_key(identity)  # a newer one does not jump the delay
                if not item.delays.fresh:
                    self._queue.add_key_at(identity, Place(item.row.namespace, group=FAILED), math.inf)
            return seconds
        finally:
            self._items.withdraw_message(identity, item)  # if it was cut off
            self._landed.set()

    def _forget(self, partitions: set[TopicPartition] | None) -> None:
        for identity in self._items.drop_waiting(lambda item: _is_of(item, partitions)):
            self._queue.remove_key(identity)


def _is_of(item: PendingRow[RowT], partitions: set[TopicPartition] | None) -> bool:
    return partitions is None or item.message.tracked.source in partitions
