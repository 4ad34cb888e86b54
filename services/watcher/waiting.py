"""Changes that wait to be sent: the latest of each resource, tenants in turn, each within its allowance.

Filled by :mod:`feed`, emptied by :mod:`dispatch`. A tenant that changes too much waits here with the latest state of
each of its resources, and delays nobody else. Holds at most one change per resource. Of their contents it holds what
:class:`HeldBytes` has room for; of the others only which resource it is, to be read when its turn comes.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field, replace
from datetime import datetime

from services.common.messages import Command, ResourceChanged
from services.common.telemetry import metrics
from services.watcher.allowance import Allowance
from services.watcher.echoes import Fingerprint
from services.watcher.held_bytes import HeldBytes
from services.watcher.turns import Turns


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be said of a resource."""

    uid: str
    """Changes of one resource replace each other."""
    tenant: str
    """Its namespace: whose allowance it needs."""
    name: str
    fingerprint: Fingerprint | None
    """None if the resource is gone."""
    seen_at: datetime
    command: Command | None = None
    """None if the resource is to be read when its turn comes."""
    refers_to: str = ""
    """Name of the other resource that the command has to tell of."""

    @property
    def size(self) -> int:
        """Bytes of content; the rest of a change is small, and of one size."""
        event = self.command.event if self.command else None
        return sys.getsizeof(event.spec) if isinstance(event, ResourceChanged) else 0


@dataclass(slots=True)
class _Held:
    change: Change
    since: float


@dataclass(slots=True)
class Waiting:
    """The changes of one kind. Belongs to the running event loop; ``allowance`` may be shared with other kinds."""

    kind: str
    allowance: Allowance
    bytes: HeldBytes = field(default_factory=HeldBytes)
    _held: dict[str, _Held] = field(default_factory=dict)
    _turns: Turns[str] = field(default_factory=Turns)
    _resting: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _was_held_back: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _filled: asyncio.Event = field(default_factory=asyncio.Event)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)
    _listing: bool = False
    _listed: set[str] | None = None
    """What of a complete list still waits; None if the last one is out."""
    _draining: bool = False

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, uid: str) -> bool:
        return uid in self._held

    def is_listed(self, uid: str) -> bool:
        """Whether it was in a list that is not out yet: the planner may know it from an earlier one."""
        return self._listed is not None and uid in self._listed

    def add(self, change: Change) -> None:
        """Let ``change`` wait its turn, or take the turn of an older one of the same resource."""
        held = self._held.get(change.uid)
        if held is not None:
            self.bytes.give(held.change.tenant, held.change.size)
            held.change = self._bounded(change)
            metrics.CHANGES_COLLAPSED.labels(self.kind).inc()
            return
        self._held[change.uid] = _Held(self._bounded(change), self._loop.time())
        self._turns.add(change.tenant, change.uid)
        if not self._listing:
            self._filled.set()

    def drop(self, uid: str) -> None:
        """Nothing needs to be said of it any more."""
        if uid in self._held:
            self._turns.drop(self._held[uid].change.tenant, uid)
            self._release(uid)
            self._filled.set()  # it may have been the last of a list

    async def take(self) -> tuple[Change, int] | None:
        """The next change that may be sent, and the milliseconds it was held back for want of tokens.

        None if by now all of a list was taken, once for each list. Asking for the next one says that the one before
        is on its way.
        """
        while True:
            if self._listed is not None and not self._listed:
                self._listed = None
                return None
            if not self._listing and self._someone_may_send():
                held = self._release(self._turns.take())
                return held.change, self._held_back_ms(held)
            if not self._held:
                self._empty.set()
            self._filled.clear()
            await self._filled.wait()

    async def begin_list(self) -> None:
        """A list begins: what waits goes out first, and at once. What an interrupted list left need not."""
        if self._listing or self._listed is not None:
            self._forget()
        else:
            await self._drain()
        self._listing = True

    def end_list(self) -> None:
        """A list is complete: it goes out, tenants in turn, without regard to allowances; changes go between."""
        self._listing, self._listed = False, set(self._held)
        self._resume_all()
        self._filled.set()

    def close(self) -> None:
        """Forget everything."""
        self._forget()
        for timer in self._resting.values():
            timer.cancel()

    async def _drain(self) -> None:
        self._draining = True
        self._resume_all()
        self._empty.clear()
        self._filled.set()
        await self._empty.wait()
        self._draining = False

    def _bounded(self, change: Change) -> Change:
        """``change``, without its content if there is no room for it."""
        return change if self.bytes.take(change.tenant, change.size) else replace(change, command=None)

    def _release(self, uid: str) -> _Held:
        held = self._held.pop(uid)
        self.bytes.give(held.change.tenant, held.change.size)
        if self._listed:
            self._listed.discard(uid)
        return held

    def _someone_may_send(self) -> bool:
        """Whether it is somebody's turn who may; whoever has no token rests until there is one."""
        while (tenant := self._turns.owner()) is not None:
            if self._may_send(tenant):
                return True
            self._turns.rest()
        return False

    def _may_send(self, tenant: str) -> bool:
        """Whether ``tenant`` has a token, if it needs one; takes the token."""
        if self._draining or self.is_listed(self._turns.next_item()):
            return True
        seconds = self.allowance.take(tenant, self._loop.time())
        if not seconds:
            return True
        self._was_held_back.add(tenant)
        self._resting[tenant] = self._loop.call_later(seconds, self._resume, tenant)
        metrics.TENANTS_HELD_BACK.labels(self.kind).set(len(self._resting))
        return False

    def _resume_all(self) -> None:
        for tenant in list(self._resting):
            self._resume(tenant)

    def _resume(self, tenant: str) -> None:
        self._resting.pop(tenant).cancel()
        self._turns.resume(tenant)
        self._filled.set()
        metrics.TENANTS_HELD_BACK.labels(self.kind).set(len(self._resting))

    def _held_back_ms(self, held: _Held) -> int:
        tenant = held.change.tenant
        if tenant not in self._was_held_back:
            return 0
        if tenant not in self._turns:
            self._was_held_back.discard(tenant)
        seconds = self._loop.time() - held.since
        metrics.HELD_BACK.labels(self.kind).observe(seconds)
        return int(seconds * 1000)

    def _forget(self) -> None:
        self._held.clear()
        self._listed = None
        self.bytes.clear()
        self._turns.clear()
        self._was_held_back.clear()
