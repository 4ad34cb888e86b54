"""The work queue: which key is worked on next. Pure; the clock is an argument.

Like the work queue of client-go it deduplicates: a key that waits is queued once, and a key that is added while it is
worked on is queued again when that work ends, so it is never worked on twice at once. In addition

- every key has an owner, in most cases a tenant. Owners take turns, one key each, so an owner with a thousand keys
  delays another by one of them;
- keys of one owner keep their order. Within a group of an owner a key waits for all pending keys of lower waves; a key
  that follows another one waits for that key alone, and no wave waits for it;
- keys may be delayed, and owners held back, until a point in time;
- the number of keys in progress is bounded, in total and per owner.

A key is pending from the moment it is added until its work ends, also while it is delayed. All operations take constant
time, or logarithmic time in the number of delays; an owner's distinct waves are taken to be few.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

UNBOUNDED = sys.maxsize
STALE_TIMERS = 64
"""So many timers that no longer apply are kept before the heap is cleaned."""


class Place(NamedTuple, Generic[KeyT]):
    """Where a key belongs."""

    owner: str
    wave: int = 0
    group: str = ""
    """Waves of different groups of one owner do not wait for each other."""
    follows: KeyT | None = None
    """The one key that it waits for, in place of lower waves, while that key is pending in the same group."""


class _State(Enum):
    QUEUED = auto()
    DELAYED = auto()
    IN_PROGRESS = auto()


class _Again(NamedTuple, Generic[KeyT]):
    """What was added while the key was worked on."""

    place: Place[KeyT]
    when: float | None


class _Wave(OrderedDict[KeyT, "_Item[KeyT]"]):
    """The queued keys of one wave, and how many are pending."""

    pending = 0


class _Owner(Generic[KeyT]):
    __slots__ = ("followers", "groups", "has_turn", "in_progress", "name", "pending", "timer")

    def __init__(self, name: str) -> None:
        self.name, self.pending, self.in_progress, self.has_turn = name, 0, 0, False
        self.timer = 0
        """Number of the timer that ends its being held back; 0 if it is not."""
        self.groups: dict[str, dict[int, _Wave[KeyT]]] = {}
        """Waves with pending keys."""
        self.followers: OrderedDict[KeyT, _Item[KeyT]] | None = None
        """Queued keys that follow another one, which is not pending."""

    def wave_of(self, place: Place[KeyT]) -> _Wave[KeyT]:
        """The wave that keys of ``place`` belong to."""
        waves = self.groups.get(place.group)
        if waves is None:
            waves = self.groups[place.group] = {}
        wave = waves.get(place.wave)
        if wave is None:
            wave = waves[place.wave] = _Wave()
        return wave

    def remove_wave(self, place: Place[KeyT]) -> None:
        """No key of it is pending any more."""
        waves = self.groups[place.group]
        del waves[place.wave]
        if not waves:
            del self.groups[place.group]

    def first_item(self) -> _Item[KeyT] | None:
        """The longest queued of those that no wave and no other key holds back."""
        first = next(iter(self.followers.values())) if self.followers else None
        for waves in self.groups.values():
            for item in waves[min(waves)].values():
                if first is None or item.number < first.number:
                    first = item
                break
        return first


class _Item(Generic[KeyT]):
    """A pending key."""

    __slots__ = ("again", "due", "key", "number", "owner", "place", "state", "timer", "wave")

    def __init__(self, key: KeyT, place: Place[KeyT], owner: _Owner[KeyT]) -> None:
        self.key, self.place, self.owner, self.state = key, place, owner, _State.QUEUED
        self.wave = owner.wave_of(place) if place.follows is None else None
        """None if it follows another key."""
        self.number = 0
        """Its position among all that is queued."""
        self.timer, self.due = 0, 0.0
        self.again: _Again[KeyT] | None = None

    def line(self) -> OrderedDict[KeyT, _Item[KeyT]]:
        """Where it is queued."""
        if self.wave is not None:
            return self.wave
        if self.owner.followers is None:
            self.owner.followers = OrderedDict()
        return self.owner.followers


class WorkQueue(Generic[KeyT]):
    """Pending keys; at most ``limit`` in progress, and ``limit_per_owner`` of one owner.

    Times are seconds of any clock that does not go back.
    """

    def __init__(self, limit: int = UNBOUNDED, limit_per_owner: int = UNBOUNDED) -> None:
        self._limit, self._limit_per_owner = limit, limit_per_owner
        self._items: dict[KeyT, _Item[KeyT]] = {}
        self._owners: dict[str, _Owner[KeyT]] = {}
        self._turns: OrderedDict[str, _Owner[KeyT]] = OrderedDict()
        """Exactly the owners of which a key may be worked on, in the order of their turns."""
        self._held: dict[str, _Owner[KeyT]] = {}
        self._followers: dict[KeyT, dict[KeyT, _Item[KeyT]]] = {}
        """Pending keys that follow a key."""
        self._timers: list[tuple[float, int, _Item[KeyT] | _Owner[KeyT]]] = []
        self._delayed = self._in_progress = self._number = 0

    def __len__(self) -> int:
        """How many keys are pending."""
        return len(self._items)

    def __contains__(self, key: KeyT) -> bool:
        """Whether ``key`` is pending."""
        return key in self._items

    def is_in_progress(self, key: KeyT) -> bool:
        """Whether ``key`` is being worked on."""
        item = self._items.get(key)
        return item is not None and item.state is _State.IN_PROGRESS

    def has_keys_of(self, owner: str) -> bool:
        """Whether any key of ``owner`` is pending."""
        return owner in self._owners and self._owners[owner].pending > 0

    # What is to be worked on

    def add_key(self, key: KeyT, place: Place[KeyT]) -> None:
        """Queue ``key``, which ends its delay; if it is being worked on, queue it again afterwards.

        A key that is queued already keeps its position, unless ``place`` is another one.
        """
        item = self._items.get(key)
        if item is None:
            self._enter(key, place, None)
        elif item.state is _State.IN_PROGRESS:
            item.again = _Again(place, None)
        elif item.state is _State.DELAYED or item.place != place:
            self._replace(item, place, None)

    def add_key_at(self, key: KeyT, place: Place[KeyT], when: float) -> None:
        """Queue ``key`` at ``when``, unless it is queued already or will be sooner."""
        item = self._items.get(key)
        if item is None:
            self._enter(key, place, when)
        elif item.state is _State.IN_PROGRESS:
            item.again = _Again(place, _sooner(item.again, when))
        elif item.state is _State.DELAYED:
            self._replace(item, place, min(item.due, when))

    def remove_key(self, key: KeyT) -> None:
        """``key`` need not be worked on any more; work in progress goes on."""
        item = self._items.get(key)
        if item is None:
            return
        if item.state is _State.IN_PROGRESS:
            item.again = None
        else:
            self._leave(item)
            self._update(item.owner)

    def clear(self) -> None:
        """Nothing is pending any more, and no owner is held back."""
        for part in (self._items, self._owners, self._turns, self._held, self._followers, self._timers):
            part.clear()
        self._delayed = self._in_progress = 0

    # Work

    def next_owner(self, now: float) -> str | None:
        """Whose key :meth:`next_key` would return."""
        if self._timers and self._timers[0][0] <= now:
            self._end_delays(now)
        return next(iter(self._turns), None) if self._in_progress < self._limit else None

    def next_key(self, now: float) -> KeyT | None:
        """The next key to work on, None if there is none. It is in progress until it is finished or requeued."""
        item = self._next_item(now)
        if item is None:
            return None
        owner = item.owner
        del item.line()[item.key]
        item.state = _State.IN_PROGRESS
        owner.in_progress += 1
        self._in_progress += 1
        self._end_turn(owner)
        return item.key

    def pop_key(self, now: float) -> KeyT | None:
        """The next key, which is not pending any more: of callers who do their work one after the other."""
        item = self._next_item(now)
        if item is None:
            return None
        self._leave(item)
        self._end_turn(item.owner)
        return item.key

    def finish_key(self, key: KeyT) -> None:
        """Work on ``key`` has ended. If it was added meanwhile it is queued again."""
        item = self._of_work(key)
        if item.again is None:
            self._leave(item)
            self._update(item.owner)
        else:
            self._replace(item, *item.again)

    def requeue_key_at(self, key: KeyT, when: float) -> None:
        """Work on ``key`` has ended, and is to be tried again at ``when``, or at once if it was added meanwhile."""
        item = self._of_work(key)
        place = item.again.place if item.again is not None else item.place
        self._replace(item, place, _sooner(item.again, when))

    # Time

    def hold_owner(self, owner: str, until: float) -> None:
        """Pass over ``owner`` until then."""
        known = self._owners.get(owner) or self._new_owner(owner)
        self._held[owner] = known
        known.timer = self._set_timer(until, known)
        self._update(known)

    def release_owners(self) -> None:
        """No owner is held back any more."""
        for owner in list(self._held.values()):
            self._release(owner)

    @property
    def held_owners(self) -> int:
        """How many owners are held back."""
        return len(self._held)

    def next_due(self) -> float | None:
        """When the next delay ends, None if there is none."""
        while self._timers and self._timers[0][2].timer != self._timers[0][1]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    # Keys come and go. Who calls these updates the owner afterwards, once: an owner keeps its turn when a key of it is
    # replaced by another.

    def _enter(self, key: KeyT, place: Place[KeyT], when: float | None) -> None:
        owner = self._join(key, place, when)
        if when is not None or not owner.has_turn:  # or else nothing changes by one more
            self._update(owner)

    def _replace(self, item: _Item[KeyT], place: Place[KeyT], when: float | None) -> None:
        self._leave(item)
        owner = self._join(item.key, place, when)
        if owner is not item.owner:
            self._update(item.owner)
        self._update(owner)

    def _join(self, key: KeyT, place: Place[KeyT], when: float | None) -> _Owner[KeyT]:
        owner = self._owners.get(place.owner) or self._new_owner(place.owner)
        item = self._items[key] = _Item(key, place, owner)
        owner.pending += 1
        if item.wave is not None:
            item.wave.pending += 1
        elif place.follows is not None:
            self._followers.setdefault(place.follows, {})[key] = item
        if when is None:
            self._queue(item)
        else:
            item.state, item.due = _State.DELAYED, when
            item.timer = self._set_timer(when, item)
            self._delayed += 1
        if key in self._followers:
            self._block_followers(key, place.group)
        return owner

    def _leave(self, item: _Item[KeyT]) -> None:
        key, place, owner, wave = item.key, item.place, item.owner, item.wave
        del self._items[key]
        owner.pending -= 1
        if item.state is _State.QUEUED:
            item.line().pop(key, None)
        elif item.state is _State.IN_PROGRESS:
            owner.in_progress -= 1
            self._in_progress -= 1
        else:
            item.timer = 0
            self._delayed -= 1
        if wave is None:
            self._stop_following(item)
        elif wave.pending > 1:
            wave.pending -= 1
        else:
            owner.remove_wave(place)
        if key in self._followers:
            self._unblock_followers(key)

    def _queue(self, item: _Item[KeyT]) -> None:
        self._number += 1
        item.state, item.number = _State.QUEUED, self._number
        if item.wave is not None:
            item.wave[item.key] = item
        elif not self._is_blocked(item):
            item.line()[item.key] = item

    def _next_item(self, now: float) -> _Item[KeyT] | None:
        if self._timers and self._timers[0][0] <= now:
            self._end_delays(now)
        if self._in_progress >= self._limit:
            return None
        for owner in self._turns.values():
            return owner.first_item()
        return None

    def _end_turn(self, owner: _Owner[KeyT]) -> None:
        """``owner`` had its turn: the next comes after all others have had theirs."""
        self._turns.popitem(last=False)
        owner.has_turn = False
        self._update(owner)

    def _update(self, owner: _Owner[KeyT]) -> None:
        """Give ``owner`` a turn exactly if a key of it may be worked on; an owner without keys is forgotten."""
        if not owner.timer and owner.in_progress < self._limit_per_owner and owner.first_item() is not None:
            if not owner.has_turn:
                owner.has_turn = True
                self._turns[owner.name] = owner
        elif owner.has_turn:
            owner.has_turn = False
            del self._turns[owner.name]
        if not owner.pending and not owner.timer:
            self._owners.pop(owner.name, None)

    def _new_owner(self, name: str) -> _Owner[KeyT]:
        owner = self._owners[name] = _Owner(name)
        return owner

    def _of_work(self, key: KeyT) -> _Item[KeyT]:
        item = self._items[key]
        if item.state is not _State.IN_PROGRESS:
            raise ValueError(f"{key} is not in progress")
        return item

    # Keys that follow another one

    def _is_blocked(self, item: _Item[KeyT]) -> bool:
        if item.place.follows is None:
            return False
        ahead = self._items.get(item.place.follows)
        return ahead is not None and ahead.place.group == item.place.group

    def _block_followers(self, key: KeyT, group: str) -> None:
        for follower in self._followers[key].values():
            if follower.state is _State.QUEUED and follower.place.group == group:
                follower.line().pop(follower.key, None)
                self._update(follower.owner)

    def _unblock_followers(self, key: KeyT) -> None:
        for follower in self._followers[key].values():
            if follower.state is _State.QUEUED:
                follower.line().setdefault(follower.key, follower)
                self._update(follower.owner)

    def _stop_following(self, item: _Item[KeyT]) -> None:
        if item.place.follows is not None:
            others = self._followers[item.place.follows]
            del others[item.key]
            if not others:
                del self._followers[item.place.follows]

    # Timers

    def _set_timer(self, when: float, target: _Item[KeyT] | _Owner[KeyT]) -> int:
        if len(self._timers) > 2 * (self._delayed + len(self._held)) + STALE_TIMERS:
            self._timers = [timer for timer in self._timers if timer[2].timer == timer[1]]
            heapq.heapify(self._timers)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, target))
        return self._number

    def _end_delays(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, number, target = heapq.heappop(self._timers)
            if target.timer != number:
                continue
            if isinstance(target, _Owner):
                self._release(target)
            else:
                self._end_delay(target)

    def _end_delay(self, item: _Item[KeyT]) -> None:
        item.timer = 0
        self._delayed -= 1
        self._queue(item)
        self._update(item.owner)

    def _release(self, owner: _Owner[KeyT]) -> None:
        owner.timer = 0
        self._held.pop(owner.name, None)
        self._update(owner)


def _sooner(again: _Again[KeyT] | None, when: float) -> float | None:
    """``when``, unless what was added meanwhile is due before it."""
    if again is None:
        return when
    return min(again.when, when) if again.when is not None else None
