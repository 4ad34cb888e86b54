"""Rows that wait to be written: the newest of each resource, one writer per resource, namespaces in turn.

Filled and emptied by :mod:`reporter`. A resource that cannot be written for now is set aside and delays nobody else;
nor does a namespace with thousands of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.common.backoff import Backoff
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import WorkspaceResource
from services.watcher.ledger import Position
from services.watcher.turns import Turns

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row, where it was read, the message it came in, and how often it was tried."""

    row: WorkspaceResource
    position: Position
    source: SourceMessage = field(compare=False)
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
        self._ready: Turns[Identity] = Turns()
        """Of what waits, all that is neither being written nor set aside."""
        self._filled = asyncio.Event()
        self._landed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Item) -> Item | None:
        """Let ``item`` wait its turn. Returns the older row of the same resource that need not be written any more."""
        superseded = self._waiting.get(item.identity)
        self._waiting[item.identity] = item
        self._make_ready(item.identity)
        return superseded

    async def take(self) -> Item:
        """The next item that may be written; it is in flight until :meth:`finish` or :meth:`set_aside`."""
        while self._ready.owner() is None:
            self._filled.clear()
            await self._filled.wait()
        identity = self._ready.take()
        self._in_flight[identity] = self._waiting.pop(identity)
        return self._in_flight[identity]

    def finish(self, item: Item) -> None:
        """It was written, or given up."""
        del self._in_flight[item.identity]
        self._make_ready(item.identity)
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
                self._ready.drop(item.row.namespace, identity)

    def _resume(self, identity: Identity) -> None:
        del self._set_aside[identity]
        self._make_ready(identity)

    def _make_ready(self, identity: Identity) -> None:
        item = self._waiting.get(identity)
        if item is not None and identity not in self._in_flight and identity not in self._set_aside:
            self._ready.add(item.row.namespace, identity)
            self._filled.set()


def _is_of(item: Item, partitions: set[int] | None) -> bool:
    return partitions is None or item.position.partition in partitions
