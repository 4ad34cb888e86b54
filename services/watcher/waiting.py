"""Changes that wait to be sent: the latest of each resource, tenants in turn, each within its allowance.

Filled and emptied by :mod:`feed`. A tenant that changes too much waits here with the latest state of each of its
resources, and delays nobody else. Holds at most one change per resource, and one removal of each the planner knows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from services.common.messages import Command
from services.common.telemetry import metrics
from services.watcher.allowance import Allowance
from services.watcher.echoes import Fingerprint
from services.watcher.turns import Turns


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be said of a resource."""

    key: str
    """Changes of one key replace each other."""
    uid: str
    command: Command
    fingerprint: Fingerprint | None
    """None if the resource is gone."""
    secret: str = ""
    """Name of the Secret that the resource refers to."""

    @property
    def tenant(self) -> str:
        """Whose allowance it needs."""
        return self.command.namespace


@dataclass(slots=True)
class _Held:
    change: Change
    since: float


@dataclass(slots=True)
class Waiting:
    """The changes of one kind. Belongs to the running event loop; ``allowance`` may be shared with other kinds."""

    kind: str
    allowance: Allowance
    _held: dict[str, _Held] = field(default_factory=dict)
    _turns: Turns[str] = field(default_factory=Turns)
    _resting: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _was_held_back: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _filled: asyncio.Event = field(default_factory=asyncio.Event)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)
    _listing: bool = False
    _draining: bool = False

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def add(self, change: Change) -> None:
        """Let ``change`` wait its turn, or take the turn of an older one of the same key."""
        held = self._held.get(change.key)
        if held is not None:
            held.change = change
            metrics.CHANGES_COLLAPSED.labels(self.kind).inc()
            return
        self._held[change.key] = _Held(change, self._loop.time())
        self._turns.add(change.tenant, change.key)
        if not self._listing:
            self._filled.set()

    def drop(self, key: str) -> None:
        """Nothing needs to be said of it any more."""
        held = self._held.pop(key, None)
        if held is not None:
            self._turns.drop(held.change.tenant, key)

    async def take(self) -> tuple[Change, int]:
        """The next change that may be sent, and the milliseconds it was held back for want of tokens.

        Asking for the next one says that the one before is sent.
        """
        while True:
            if not self._listing and self._someone_may_send():
                held = self._held.pop(self._turns.take())
                return held.change, self._held_back_ms(held)
            if not self._held:
                self._empty.set()
            self._filled.clear()
            await self._filled.wait()

    async def begin_list(self) -> None:
        """A list begins: what waits goes out first, and at once. What an interrupted list left need not."""
        if self._listing:
            self._forget()
        else:
            await self._drain()
        self._listing = True

    async def end_list(self) -> None:
        """A list is complete: return when all of it was sent, tenants in turn, without regard to allowances."""
        self._listing = False
        await self._drain()

    def close(self) -> None:
        """Forget everything."""
        self._forget()
        for timer in self._resting.values():
            timer.cancel()

    async def _drain(self) -> None:
        self._draining = True
        for tenant in list(self._resting):
            self._resume(tenant)
        self._empty.clear()
        self._filled.set()
        await self._empty.wait()
        self._draining = False

    def _someone_may_send(self) -> bool:
        """Whether it is somebody's turn who may; whoever has no token rests until there is one."""
        while (tenant := self._turns.owner()) is not None:
            if self._may_send(tenant):
                return True
            self._turns.rest()
        return False

    def _may_send(self, tenant: str) -> bool:
        """Whether ``tenant`` has a token, if it needs one; takes the token."""
        if self._draining:
            return True
        seconds = self.allowance.take(tenant, self._loop.time())
        if not seconds:
            return True
        self._was_held_back.add(tenant)
        self._resting[tenant] = self._loop.call_later(seconds, self._resume, tenant)
        metrics.TENANTS_HELD_BACK.labels(self.kind).set(len(self._resting))
        return False

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
        self._turns.clear()
        self._was_held_back.clear()
