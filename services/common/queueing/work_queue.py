"""The work queue decides which key is next. Pure; the clock is an argument.

Like the work queue of client-go it deduplicates: a waiting key is queued once, and a key that is added while it is in
progress is queued again when that work ends, so no key is in progress twice. In addition:

- Every key is in a lane, usually a tenant's. Lanes take turns, one key each, so a lane with a thousand keys delays
  another lane by one of them.
- Keys of one lane keep their order. Within a group of a lane, a key waits for all pending keys of lower waves. A key
  that follows another key waits for that key only, and no wave waits for it.
- Keys may be delayed, and lanes held back, until a point in time.
- The number of keys in progress is bounded, in total and per lane.

A key is pending from when it is added until its work ends, even while it is delayed. All operations take constant time,
or logarithmic time in the number of delays; a lane is assumed to have few distinct waves.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

UNBOUNDED = sys.maxsize
STALE_TIMERS = 64
"""How many obsolete timers are tolerated before the heap is cleaned."""
FOLLOWERS = "followers of other keys"
"""The group of keys that follow another key. No wave of another group waits for them."""


class Place(NamedTuple, Generic[KeyT]):
    """The position of a key."""

    lane: str
    wave: int = 0
    group: str = ""
    """Waves of different groups of a lane do not wait for each other."""
    follows: KeyT | None = None
    """The key that it waits for, instead of lower waves, while that key is pending in the same group."""


class _Wave(OrderedDict[KeyT, "_Item[KeyT]"]):
    """The queued keys of one wave, and the number of its pending keys."""

    pending = 0


class _Lane(Generic[KeyT]):
    __slots__ = ("groups", "in_progress", "name", "timer")

    def __init__(self, name: str) -> None:
        self.name, self.in_progress = name, 0
        self.groups: dict[str, dict[int, _Wave[KeyT]]] = {}
        """Waves with pending keys."""
        self.timer: _Timer[KeyT] | None = None
        """Runs until when the lane is held back."""

    def wave_of(self, place: Place[KeyT]) -> _Wave[KeyT]:
        """The wave of keys with this ``place``."""
        group, number = (place.group, place.wave) if place.follows is None else (FOLLOWERS, 0)
        waves = self.groups.get(group)
        if waves is None:
            waves = self.groups[group] = {}
        wave = waves.get(number)
        if wave is None:
            wave = waves[number] = _Wave()
        return wave

    def remove_wave(self, place: Place[KeyT]) -> None:
        """Remove a wave without pending keys."""
        group, number = (place.group, place.wave) if place.follows is None else (FOLLOWERS, 0)
        waves = self.groups[group]
        del waves[number]
        if not waves:
            del self.groups[group]

    def first_item(self) -> _Item[KeyT] | None:
        """The first queued item that neither a wave nor another key holds back."""
        first = None
        for waves in self.groups.values():
            for item in waves[min(waves)].values():
                if first is None or item.number < first.number:
                    first = item
                break
        return first


class _Item(Generic[KeyT]):
    """A pending key: in progress, delayed by a timer, or queued."""

    __slots__ = ("again", "in_progress", "key", "lane", "number", "place", "timer", "wave")

    def __init__(self, key: KeyT, place: Place[KeyT], lane: _Lane[KeyT]) -> None:
        self.key, self.place, self.lane, self.wave = key, place, lane, lane.wave_of(place)
        self.number = 0
        """Its position among all queued items."""
        self.in_progress = False
        self.timer: _Timer[KeyT] | None = None
        self.again: tuple[Place[KeyT], float | None] | None = None
        """Where and when it was added while it was in progress."""


_Timer = tuple[float, int, _Item[KeyT] | _Lane[KeyT]]
"""When it ends, a unique number, and what waits for it."""


class WorkQueue(Generic[KeyT]):
    """Pending keys. At most ``limit`` are in progress, and ``limit_per_lane`` of one lane.

    Times are seconds of any clock that does not go back.
    """

    def __init__(self, limit: int = UNBOUNDED, limit_per_lane: int = UNBOUNDED) -> None:
        self._limit, self._limit_per_lane = limit, limit_per_lane
        self._items: dict[KeyT, _Item[KeyT]] = {}
        self._lanes: dict[str, _Lane[KeyT]] = {}
        self._turns: OrderedDict[str, _Lane[KeyT]] = OrderedDict()
        """The lanes with a key that may start, in the order of their turns."""
        self._followers: dict[KeyT, dict[KeyT, _Item[KeyT]]] = {}
        """Pending keys that follow a key."""
        self._timers: list[_Timer[KeyT]] = []
        self._delayed = self._delayed_lanes = self._in_progress = self._number = 0

    def __len__(self) -> int:
        """Number of pending keys."""
        return len(self._items)

    def __contains__(self, key: KeyT) -> bool:
        """Whether ``key`` is pending."""
        return key in self._items

    def is_in_progress(self, key: KeyT) -> bool:
        """Whether ``key`` is in progress."""
        item = self._items.get(key)
        return item is not None and item.in_progress

    def has_keys_in(self, lane: str) -> bool:
        """Whether any key of ``lane`` is pending."""
        return lane in self._lanes and bool(self._lanes[lane].groups)

    # What is to be worked on

    def add_key(self, key: KeyT, place: Place[KeyT]) -> None:
        """Queue ``key``, which ends its delay. If it is in progress, queue it again afterwards.

        A key that is already queued keeps its position, unless ``place`` differs.
        """
        item = self._items.get(key)
        if item is None:
            lane = self._join(key, place, None)
            if lane.name not in self._turns:  # or else nothing changes by one more
                self._update(lane)
        elif item.in_progress:
            item.again = (place, None)
        elif item.timer is not None or item.place != place:
            self._replace(item, place, None)

    def add_key_at(self, key: KeyT, place: Place[KeyT], when: float) -> None:
        """Queue ``key`` at ``when``, unless it is queued, or will be sooner."""
        item = self._items.get(key)
        if item is None:
            self._update(self._join(key, place, when))
        elif item.in_progress:
            item.again = (place, _sooner(item.again, when))
        elif item.timer is not None:
            self._replace(item, place, min(item.timer[0], when))

    def remove_key(self, key: KeyT) -> None:
        """Remove ``key``. Work in progress continues."""
        item = self._items.get(key)
        if item is None:
            return
        if item.in_progress:
            item.again = None
        else:
            self._leave(item)
            self._update(item.lane)

    def clear(self) -> None:
        """Remove all keys, and hold back no lane."""
        for part in (self._items, self._lanes, self._turns, self._followers, self._timers):
            part.clear()
        self._delayed = self._delayed_lanes = self._in_progress = 0

    # Work

    def next_lane(self, now: float) -> str | None:
        """The lane of the key that :meth:`next_key` would return."""
        if self._timers and self._timers[0][0] <= now:
            self._end_timers(now)
        return next(iter(self._turns), None) if self._in_progress < self._limit else None

    def next_key(self, now: float) -> KeyT | None:
        """The next key, None if there is none. It is in progress until it is finished or requeued."""
        item = self._next_item(now)
        if item is None:
            return None
        del item.wave[item.key]
        item.in_progress = True
        item.lane.in_progress += 1
        self._in_progress += 1
        self._update(item.lane)
        return item.key

    def pop_key(self, now: float) -> KeyT | None:
        """The next key, which is then not pending any more. For callers that finish it before the next call."""
        item = self._next_item(now)
        if item is None:
            return None
        self._leave(item)
        self._update(item.lane)
        return item.key

    def finish_key(self, key: KeyT) -> None:
        """End work on ``key``. If it was added meanwhile, it is queued again."""
        item = self._item_in_progress(key)
        if item.again is None:
            self._leave(item)
            self._update(item.lane)
        else:
            self._replace(item, *item.again)

    def requeue_key_at(self, key: KeyT, when: float) -> None:
        """End work on ``key``, and queue it again at ``when``, or at once if it was added meanwhile."""
        item = self._item_in_progress(key)
        place = item.again[0] if item.again is not None else item.place
        self._replace(item, place, _sooner(item.again, when))

    # Time

    def delay_lane(self, lane: str, until: float) -> None:
        """Hold ``lane`` back until then."""
        known = self._lanes.get(lane) or self._new_lane(lane)
        self._delayed_lanes += known.timer is None
        known.timer = self._start_timer(until, known)
        self._update(known)

    @property
    def delayed_lanes(self) -> int:
        """Number of lanes that are held back."""
        return self._delayed_lanes

    def next_due(self) -> float | None:
        """When the next delay ends, None if there is none."""
        while self._timers and self._timers[0][2].timer is not self._timers[0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    # Keys come and go. Who calls these updates the lane afterwards, once: a lane keeps its turn when a key of it is
    # replaced by another.

    def _replace(self, item: _Item[KeyT], place: Place[KeyT], when: float | None) -> None:
        self._leave(item)
        lane = self._join(item.key, place, when)
        if lane is not item.lane:
            self._update(item.lane)
        self._update(lane)

    def _join(self, key: KeyT, place: Place[KeyT], when: float | None) -> _Lane[KeyT]:
        lane = self._lanes.get(place.lane) or self._new_lane(place.lane)
        item = self._items[key] = _Item(key, place, lane)
        item.wave.pending += 1
        if place.follows is not None:
            self._followers.setdefault(place.follows, {})[key] = item
        if when is None:
            self._queue(item)
        else:
            item.timer = self._start_timer(when, item)
            self._delayed += 1
        if key in self._followers:
            self._block_followers(key, place.group)
        return lane

    def _leave(self, item: _Item[KeyT]) -> None:
        key, place, lane, wave = item.key, item.place, item.lane, item.wave
        del self._items[key]
        if item.in_progress:
            lane.in_progress -= 1
            self._in_progress -= 1
        elif item.timer is not None:
            item.timer = None
            self._delayed -= 1
        else:
            wave.pop(key, None)
        if wave.pending > 1:
            wave.pending -= 1
        else:
            lane.remove_wave(place)
        if place.follows is not None:
            self._stop_following(key, place.follows)
        if key in self._followers:
            self._unblock_followers(key)

    def _queue(self, item: _Item[KeyT]) -> None:
        self._number += 1
        item.number = self._number
        if item.place.follows is None or not self._is_blocked(item.place):
            item.wave[item.key] = item

    def _next_item(self, now: float) -> _Item[KeyT] | None:
        """The next item of the lane whose turn it is. The lane moves to the end of the turns; the caller updates it."""
        if self.next_lane(now) is None:
            return None
        _, lane = self._turns.popitem(last=False)
        return lane.first_item()

    def _update(self, lane: _Lane[KeyT]) -> None:
        """Give ``lane`` a turn if one of its keys may start. Remove a lane without keys."""
        is_free = lane.timer is None and lane.in_progress < self._limit_per_lane
        if is_free and lane.groups and lane.first_item() is not None:
            self._turns.setdefault(lane.name, lane)
            return
        self._turns.pop(lane.name, None)
        if lane.timer is None and not lane.groups:
            self._lanes.pop(lane.name, None)

    def _new_lane(self, name: str) -> _Lane[KeyT]:
        lane = self._lanes[name] = _Lane(name)
        return lane

    def _item_in_progress(self, key: KeyT) -> _Item[KeyT]:
        item = self._items[key]
        if not item.in_progress:
            raise ValueError(f"{key} is not in progress")
        return item

    # Keys that follow another one

    def _is_blocked(self, place: Place[KeyT]) -> bool:
        ahead = None if place.follows is None else self._items.get(place.follows)
        return ahead is not None and ahead.place.group == place.group

    def _block_followers(self, key: KeyT, group: str) -> None:
        for follower in self._followers[key].values():
            if follower.place.group == group and follower.wave.pop(follower.key, None) is not None:
                self._update(follower.lane)

    def _unblock_followers(self, key: KeyT) -> None:
        for follower in self._followers[key].values():
            if not follower.in_progress and follower.timer is None:
                follower.wave[follower.key] = follower
                self._update(follower.lane)

    def _stop_following(self, key: KeyT, followed: KeyT) -> None:
        others = self._followers[followed]
        del others[key]
        if not others:
            del self._followers[followed]

    # Timers

    def _start_timer(self, when: float, target: _Item[KeyT] | _Lane[KeyT]) -> _Timer[KeyT]:
        if len(self._timers) > 2 * (self._delayed + self._delayed_lanes) + STALE_TIMERS:
            self._timers = [timer for timer in self._timers if timer[2].timer is timer]
            heapq.heapify(self._timers)
        self._number += 1
        timer = (when, self._number, target)
        heapq.heappush(self._timers, timer)
        return timer

    def _end_timers(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)
            target = timer[2]
            if target.timer is not timer:
                continue
            target.timer = None
            if isinstance(target, _Lane):
                self._delayed_lanes -= 1
                self._update(target)
            else:
                self._delayed -= 1
                self._queue(target)
                self._update(target.lane)


def _sooner(again: tuple[object, float | None] | None, when: float) -> float | None:
    """``when``, or the time of what was added meanwhile if that is sooner."""
    if again is None:
        return when
    return min(again[1], when) if again[1] is not None else None
