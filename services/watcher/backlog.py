"""Rows that wait to be written: the newest of each resource, one writer per resource, in the order of arrival.

Filled and emptied by :mod:`reporter`. A resource that cannot be written for now is set aside and delays nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.common.backoff import Backoff
from services.common.messages import WorkspaceResource
from services.watcher.ledger import Position

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row, where it was read, and how often it was tried."""

    row: WorkspaceResource
    position: Position
    delays: Backoff = field(default_factory=Backoff, compare=False)

    @property
    def identity(self) -> Identity:
        """The resource whose status it is."""
        return (self.row.kind, self.row.namespace, self.row.name)


class Backlog:
    """Belongs to one event loop. Every item added is given back once: superseded, dropped, or taken and finished."""

    def __init__(self) -> None:
        self._waiting: dict[Identity, Item] = {}
        self._in_flight: dict[Identity, Item] = {}
        self._set_aside: dict[Identity, asyncio.TimerHandle] = {}
        self._ready: asyncio.Queue[Identity] = asyncio.Queue()
        self._landed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Item) -> Item | None:
        """Let ``item`` wait its turn. Returns the older row of the same resource that need not be written any more."""
        superseded = self._waiting.get(item.identity)
        self._waiting[item.identity] = item
        if superseded is None:
            self._ready.put_nowait(item.identity)
        return superseded

    async def take(self) -> Item:
        """The next item that may be written; it is in flight until :meth:`finish` or :meth:`set_aside`."""
        while True:
            identity = await self._ready.get()
            if identity in self._waiting and not self._is_blocked(identity):
                self._in_flight[identity] = self._waiting.pop(identity)
                return self._in_flight[identity]

    def finish(self, item: Item) -> None:
        """It was written, or given up."""
        del self._in_flight[item.identity]
        self._unblocked(item.identity)
        self._landed.set()

    def set_aside(self, item: Item, seconds: float) -> Item | None:
        """It could not be written; try again after ``seconds``. Returns ``item`` if a newer one waits instead."""
        identity = item.identity
        del self._in_flight[identity]
        self._landed.set()
        superseded = identity in self._waiting
        self._waiting.setdefault(identity, item)
        self._set_aside[identity] = asyncio.get_running_loop().call_later(seconds, self._resume, identity)
        return item if superseded else None

    async def drop(self, partitions: Iterable[int] | None = None) -> None:
        """Forget what waits of these partitions (of all if None), once what of them is being written has landed."""
        gone = None if partitions is None else set(partitions)
        self._forget(gone)
        while any(_is_of(item, gone) for item in self._in_flight.values()):
            self._landed.clear()
            await self._landed.wait()
            self._forget(gone)  # what landed may have been set aside

    def _forget(self, partitions: set[int] | None) -> None:
        for identity, item in list(self._waiting.items()):
            if _is_of(item, partitions):
                del self._waiting[identity]

    def _is_blocked(self, identity: Identity) -> bool:
        return identity in self._in_flight or identity in self._set_aside

    def _resume(self, identity: Identity) -> None:
        del self._set_aside[identity]
        self._unblocked(identity)

    def _unblocked(self, identity: Identity) -> None:
        if identity in self._waiting:
            self._ready.put_nowait(identity)


def _is_of(item: Item, partitions: set[int] | None) -> bool:
    return partitions is None or item.position.partition in partitions
