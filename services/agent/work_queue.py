"""Which object is worked on next: newest mark wins, waves within a lane, lanes in turn. Pure; no I/O, no clock.

A lane is a tenant. Within it a present object waits for pending present work of lower waves (its AppProject), an
absent one for pending absent work of higher waves (its Applications): creation goes up, deletion comes down. What
follows one object (a sync its Application) waits for that one alone, whatever else hangs in the lane. Lanes take
turns, so that a tenant with a thousand objects delays nobody else by more than one of them.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from services.agent.objects import ObjectKey


@dataclass(frozen=True, slots=True)
class Place:
    """Where work on an object belongs."""

    lane: str
    wave: int
    absent: bool
    follows: ObjectKey | None = None
    """The one object it waits for, in place of lower waves, while there is present work on that."""


class _State(Enum):
    BLOCKED = auto()
    READY = auto()
    RUNNING = auto()
    WAITING = auto()


@dataclass(slots=True)
class _Item:
    place: Place
    state: _State = _State.BLOCKED
    again: Place | None = None
    """Marked while it was worked on."""
    due: datetime | None = None


@dataclass(slots=True)
class _Lane:
    pending: Counter[tuple[bool, int]] = field(default_factory=Counter)
    blocked: dict[ObjectKey, None] = field(default_factory=dict)
    ready: deque[ObjectKey] = field(default_factory=deque)
    queued: bool = False

    def holds_back(self, place: Place) -> bool:
        return any(
            count > 0 and absent == place.absent and (wave > place.wave if absent else wave < place.wave)
            for (absent, wave), count in self.pending.items()
        )


class WorkQueue:
    """Pending work of one engine instance; its size is bounded by the number of objects."""

    def __init__(self) -> None:
        self._items: dict[ObjectKey, _Item] = {}
        self._lanes: dict[str, _Lane] = {}
        self._turns: deque[str] = deque()
        self._timers: list[tuple[datetime, ObjectKey]] = []
        self._followers: dict[ObjectKey, set[ObjectKey]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._items

    def mark(self, key: ObjectKey, place: Place) -> None:
        """Look at ``key`` as soon as its wave allows; if it is being worked on, once more afterwards."""
        item = self._items.get(key)
        if item is None:
            self._add(key, place)
        elif item.state is _State.RUNNING:
            item.again = place
        elif item.place != place or item.state is _State.WAITING:
            self._remove(key)
            self._add(key, place)

    def mark_if_running(self, key: ObjectKey, place: Place) -> None:
        """Look at ``key`` once more if it is being worked on; if it waits, it goes on waiting."""
        item = self._items.get(key)
        if item is not None and item.state is _State.RUNNING:
            item.again = place

    def mark_at(self, key: ObjectKey, place: Place, when: datetime) -> None:
        """Look at ``key`` at ``when``, unless there is work on it already."""
        if key not in self._items:
            self._add(key, place)
            self._suspend(key, when)

    def take(self, now: datetime) -> ObjectKey | None:
        """The next object to work on, None if there is none; it stays pending until finished or waiting."""
        self._wake(now)
        while self._turns:
            name = self._turns.popleft()
            lane = self._lanes.get(name)
            key = self._next_of(lane) if lane else None
            if lane is not None:
                lane.queued = False
                self._take_turn(name, lane)
            if key is not None:
                self._items[key].state = _State.RUNNING
                return key
        return None

    def finish(self, key: ObjectKey) -> None:
        """Work on ``key`` is done; the waves behind it may go."""
        again = self._items[key].again
        self._remove(key)
        if again is not None:
            self._add(key, again)

    def wait(self, key: ObjectKey, until: datetime) -> None:
        """``key`` stays pending, without being worked on, until it is marked or ``until`` has come."""
        again = self._items[key].again
        if again is not None:
            self.finish(key)
        else:
            self._suspend(key, until)

    def due(self) -> datetime | None:
        """When the next waiting object is due."""
        while self._timers and not self._is_current(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._items, self._lanes, self._turns, self._timers, self._followers):
            part.clear()

    def _add(self, key: ObjectKey, place: Place) -> None:
        lane = self._lanes.setdefault(place.lane, _Lane())
        lane.pending[place.absent, place.wave] += 1
        lane.blocked[key] = None
        self._items[key] = _Item(place)
        if place.follows is not None:
            self._followers.setdefault(place.follows, set()).add(key)
        self._release(place.lane, key)

    def _remove(self, key: ObjectKey) -> None:
        item = self._items.pop(key)
        lane = self._lanes[item.place.lane]
        lane.blocked.pop(key, None)
        wave = (item.place.absent, item.place.wave)
        lane.pending[wave] -= 1
        if lane.pending[wave] == 0:
            del lane.pending[wave]
            for blocked in list(lane.blocked):
                self._release(item.place.lane, blocked)
        if not lane.pending:
            del self._lanes[item.place.lane]
        self._release_followers(key, item.place)

    def _release_followers(self, key: ObjectKey, place: Place) -> None:
        """``key`` is no longer pending: it follows nobody, and nobody waits for it."""
        if place.follows is not None and (others := self._followers.get(place.follows)) is not None:
            others.discard(key)
            if not others:
                del self._followers[place.follows]
        for follower in sorted(self._followers.get(key, ())):
            item = self._items[follower]
            if item.state is _State.BLOCKED:
                self._release(item.place.lane, follower)

    def _release(self, name: str, key: ObjectKey) -> None:
        """Blocked becomes ready if no wave holds it back."""
        lane, item = self._lanes[name], self._items[key]
        if self._is_held_back(lane, item.place):
            return
        lane.blocked.pop(key, None)
        item.state = _State.READY
        lane.ready.append(key)
        self._take_turn(name, lane)

    def _is_held_back(self, lane: _Lane, place: Place) -> bool:
        if place.follows is None:
            return lane.holds_back(place)
        ahead = self._items.get(place.follows)
        return ahead is not None and not ahead.place.absent

    def _take_turn(self, name: str, lane: _Lane) -> None:
        if lane.ready and not lane.queued:
            lane.queued = True
            self._turns.append(name)

    def _next_of(self, lane: _Lane) -> ObjectKey | None:
        while lane.ready:
            key = lane.ready.popleft()
            item = self._items.get(key)
            if item is None or item.state is not _State.READY or self._lanes.get(item.place.lane) is not lane:
                continue  # marked elsewhere since
            if not self._is_held_back(lane, item.place):
                return key
            item.state = _State.BLOCKED
            lane.blocked[key] = None
        return None

    def _suspend(self, key: ObjectKey, until: datetime) -> None:
        item = self._items[key]
        self._lanes[item.place.lane].blocked.pop(key, None)
        item.state, item.due = _State.WAITING, until
        heapq.heappush(self._timers, (until, key))

    def _wake(self, now: datetime) -> None:
        while (due := self.due()) is not None and due <= now:
            _, key = heapq.heappop(self._timers)
            item = self._items[key]
            item.state, item.due = _State.BLOCKED, None
            self._lanes[item.place.lane].blocked[key] = None
            self._release(item.place.lane, key)

    def _is_current(self, due: datetime, key: ObjectKey) -> bool:
        item = self._items.get(key)
        return item is not None and item.state is _State.WAITING and item.due == due
