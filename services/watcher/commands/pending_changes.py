"""Changes that are not sent yet: the latest of each resource, tenants in turn, each within its rate limit.

Filled by :mod:`follow_session`, emptied by :mod:`command_sender`. A tenant that changes too much waits here with the
latest state of each of its resources, and delays nobody else. What a list shows waits behind what the watch shows, and
goes out at a pace that the planner keeps up with, so a long list does not delay a new change either. There is at most
one change per resource. :class:`ReservedBytes` bounds the bytes of content that wait here; of a change beyond that only
the resource's identity is stored, and the resource is read when its turn comes. No change is a message to acknowledge:
what is lost, the next list shows.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from services.common.clock import Clock, SystemClock
from services.common.messages import Command, ResourceChanged
from services.common.queueing import Place, WorkQueue
from services.common.telemetry import metrics
from services.watcher.commands.throttling import RateLimiter, ReservedBytes
from services.watcher.commands.translation import StateVersion

ALL_TENANTS = ""
CHANGES_PER_LISTED = 8
"""How many changes are sent before one resource of a list, if both wait. So every list ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """The newest state of a resource, to be sent."""

    uid: str
    """Identifies the resource. Its newest change replaces older ones."""
    tenant: str
    """The resource's namespace, whose tokens the change needs."""
    name: str
    state_version: StateVersion | None
    """None if the resource is gone."""
    seen_at: datetime
    command: Command | None = None
    """None if the resource is read when its turn comes."""
    refers_to: str = ""
    """Name of the other resource that the command describes."""
    seen: float = field(default_factory=time.monotonic, compare=False)
    """``seen_at`` in monotonic seconds, which nobody can set back."""

    @property
    def size(self) -> int:
        """Bytes of content. The rest of a change is small, and of a fixed size."""
        event = self.command.event if self.command else None
        if not isinstance(event, ResourceChanged):
            return 0
        texts = (event.spec, event.metadata, event.status, event.recalled_status)
        return sum(sys.getsizeof(text) for text in texts if text)


@dataclass(slots=True)
class _Pending:
    change: Change
    since: float


@dataclass(slots=True)
class PendingChanges:
    """The pending changes of one kind. Belongs to the running event loop.

    The limiters may be shared with other kinds.
    """

    kind: str
    limiter: RateLimiter
    """Limits what the watch shows, by tenant."""
    list_limiter: RateLimiter
    """Limits what lists show, for all tenants together."""
    bytes: ReservedBytes = field(default_factory=ReservedBytes)
    clock: Clock = field(default_factory=SystemClock)
    _pending: dict[str, _Pending] = field(default_factory=dict)
    _changed: WorkQueue[str] = field(default_factory=WorkQueue)
    """What the watch has shown. Each key costs its tenant a token."""
    _listed: WorkQueue[str] = field(default_factory=WorkQueue)
    """What must be sent before the list is complete. Tenants' limits do not apply."""
    _listing: bool = False
    """Whether a list is being read."""
    _unsent: bool = False
    """Whether a list is being read, or some of the last list was not returned yet."""
    _changes_in_a_row: int = 0
    _list_due: float | None = None
    """When more of the list may be sent; None if nothing waits for that."""
    _was_held_back: set[str] = field(default_factory=set)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pending

    @property
    def is_listing(self) -> bool:
        """Whether a list is being read."""
        return self._listing

    def is_listed(self, uid: str) -> bool:
        """Whether the list is incomplete until this resource is sent."""
        return uid in self._listed

    def add_change(self, change: Change, *, of_list: bool = False) -> None:
        """Queue ``change``, or replace an older change of the same resource, which keeps its turn.

        ``of_list``: the resource may belong to the list that is being read, although the list no longer shows it.
        """
        self._put(change)
        self._changed.add_key(change.uid, Place(change.tenant))
        if of_list:
            self._list(change)

    def add_listed(self, change: Change) -> None:
        """Queue a resource that a list shows."""
        self._put(change)
        self._list(change)

    def drop_change(self, uid: str) -> None:
        """Forget the change of this resource."""
        if uid in self._pending:
            self._release(uid)
            self._wakeup.set()  # it may have been the last of a list

    async def next_change(self) -> tuple[Change, int] | None:
        """The next change that may be sent, and for how many milliseconds it was held back for want of tokens.

        Returns None once per list, after its last resource.
        """
        while True:
            if self._unsent and not self._listing and not self._listed:
                self._unsent = False
                return None
            uid = self._next_uid(self.clock.time())
            if uid is not None:
                pending = self._release(uid)
                return pending.change, self._held_back_ms(pending)
            metrics.TENANTS_HELD_BACK.labels(self.kind).set(self._changed.delayed_lanes)
            await self._wait()

    def begin_list(self) -> None:
        """Begin a list. Drops what waits, because the list will show it, but for removals."""
        removals = [pending for pending in self._pending.values() if pending.change.state_version is None]
        self.clear()
        self._unsent = self._listing = True
        for pending in removals:
            self._pending[pending.change.uid] = pending
            self._list(pending.change)

    def end_list(self) -> None:
        """The list was read. Only now it is sent, tenants in turn: a list shows one tenant after the other."""
        self._listing = False
        self._wakeup.set()

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._pending, self.bytes, self._changed, self._listed, self._was_held_back):
            part.clear()
        self._unsent = self._listing = False

    def _put(self, change: Change) -> None:
        pending = self._pending.get(change.uid)
        if pending is None:
            self._pending[change.uid] = _Pending(self._bounded(change), self.clock.time())
        else:
            self.bytes.release_bytes(pending.change.tenant, pending.change.size)
            pending.change = self._bounded(change)
            metrics.CHANGES_COLLAPSED.labels(self.kind).inc()
        self._wakeup.set()

    def _list(self, change: Change) -> None:
        if self._unsent:
            self._listed.add_key(change.uid, Place(change.tenant))

    def _bounded(self, change: Change) -> Change:
        """``change``, without its content if there is no room for that."""
        return change if self.bytes.reserve_bytes(change.tenant, change.size) else replace(change, command=None)

    async def _wait(self) -> None:
        """Return when something was added or dropped, or may be sent by now."""
        self._wakeup.clear()
        dues = [due for due in (self._changed.next_due(), self._list_due) if due is not None]
        with suppress(TimeoutError):
            async with self.clock.timeout_at(min(dues)) if dues else nullcontext():
                await self._wakeup.wait()

    def _next_uid(self, now: float) -> str | None:
        if self._changes_in_a_row >= CHANGES_PER_LISTED and (uid := self._next_listed(now)) is not None:
            return uid
        if (uid := self._next_changed(now)) is not None:
            self._changes_in_a_row += 1
            return uid
        return self._next_listed(now)

    def _next_listed(self, now: float) -> str | None:
        self._changes_in_a_row, self._list_due = 0, None
        if self._listing or not self._listed:
            return None
        self._list_due = self.list_limiter.take_token(ALL_TENANTS, now)
        return None if self._list_due is not None else self._listed.pop_key(now)

    def _next_changed(self, now: float) -> str | None:
        """The next uid of the tenant whose turn it is. A tenant without a token is held back until it has one."""
        while (tenant := self._changed.next_lane(now)) is not None:
            due = self.limiter.take_token(tenant, now)
            if due is None:
                return self._changed.pop_key(now)
            self._was_held_back.add(tenant)
            self._changed.delay_lane(tenant, due)
        return None

    def _release(self, uid: str) -> _Pending:
        pending = self._pending.pop(uid)
        self.bytes.release_bytes(pending.change.tenant, pending.change.size)
        self._changed.remove_key(uid)
        self._listed.remove_key(uid)
        return pending

    def _held_back_ms(self, pending: _Pending) -> int:
        tenant = pending.change.tenant
        if tenant not in self._was_held_back:
            return 0
        if not self._changed.has_keys_in(tenant):
            self._was_held_back.discard(tenant)
        seconds = self.clock.time() - pending.since
        metrics.HELD_BACK.labels(self.kind).observe(seconds)
        return int(seconds * 1000)
