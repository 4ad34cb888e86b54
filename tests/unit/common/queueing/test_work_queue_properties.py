"""Whatever is added, delayed, held back, worked on and removed, in any order: nothing is lost, keys keep their order,
and lanes take turns."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.common.queueing import UNBOUNDED, Place, WorkQueue
from tests.unit.examples import in_proportion

LANES = ["a", "b", "c", "d"]
KEYS = [f"{lane}{number}" for lane in LANES for number in range(4)]
lanes, keys, seconds = st.sampled_from(LANES), st.sampled_from(KEYS), st.integers(0, 5)
waves, groups = st.integers(0, 2), st.sampled_from(["", "present"])


@st.composite
def places(draw: st.DrawFn, key: str) -> Place[str]:
    follows = draw(st.one_of(st.none(), st.sampled_from(KEYS)))
    lane = draw(st.sampled_from([key[0], key[0], key[0], "other"]))
    # A key follows one that comes before it, so that no two wait for each other.
    return Place(lane, draw(waves), draw(groups), follows if follows is not None and follows < key else None)


placed_keys = keys.flatmap(lambda key: st.tuples(st.just(key), places(key)))


@dataclass
class Expected:
    """A pending key as a reader of the queue's description expects it."""

    place: Place[str]
    due: float | None
    """Until when it is delayed."""
    number: int
    """Of the moment in which it was queued."""
    in_progress: bool = False
    again: tuple[Place[str], float | None] | None = None


@dataclass
class Passed:
    """Who had a turn since a lane has been waiting for its own."""

    lanes: set[str] = field(default_factory=set)


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.number = 0
        self.expected: dict[str, Expected] = {}
        self.held: dict[str, float] = {}
        self.passed: defaultdict[str, Passed] = defaultdict(Passed)

    @initialize(limit=st.sampled_from([2, UNBOUNDED]), per_lane=st.sampled_from([1, 2, UNBOUNDED]))
    def begin(self, limit: int, per_lane: int) -> None:
        self.limit, self.per_lane = limit, per_lane
        self.queue: WorkQueue[str] = WorkQueue(limit, per_lane)

    @rule(key_and_place=placed_keys)
    def add(self, key_and_place: tuple[str, Place[str]]) -> None:
        key, place = key_and_place
        self.queue.add_key(key, place)
        known = self.expected.get(key)
        if known is not None and known.in_progress:
            known.again = (place, None)
        elif known is None or known.due is not None or known.place != place:
            self._put(key, place, None)

    @rule(key_and_place=placed_keys, delay=seconds)
    def add_later(self, key_and_place: tuple[str, Place[str]], delay: int) -> None:
        key, place = key_and_place
        when = self.now + delay
        self.queue.add_key_at(key, place, when)
        known = self.expected.get(key)
        if known is None:
            self._put(key, place, when)
        elif known.in_progress:
            known.again = (place, _sooner(known.again, when))
        elif known.due is not None:
            self._put(key, place, min(known.due, when))

    @rule(key=keys)
    def remove(self, key: str) -> None:
        self.queue.remove_key(key)
        known = self.expected.get(key)
        if known is not None and known.in_progress:
            known.again = None
        else:
            self.expected.pop(key, None)

    @rule(lane=lanes, delay=seconds)
    def hold(self, lane: str, delay: int) -> None:
        self.queue.delay_lane(lane, self.now + delay)
        self.held[lane] = self.now + delay

    @rule(passed=st.integers(1, 3))
    def pass_time(self, passed: int) -> None:
        self.now += passed

    @rule()
    def work(self) -> None:
        lane_in_turn, key = self.queue.next_lane(self.now), self.queue.next_key(self.now)
        self._end_delays()
        assert self.queue.delayed_lanes == len(self.held)
        assert lane_in_turn == (None if key is None else self.expected[key].place.lane)
        workable = self._workable()
        if key is None:
            assert not workable or len(self._in_progress()) >= self.limit, f"{workable} could be worked on"
            return
        assert len(self._in_progress()) < self.limit
        lane = self.expected[key].place.lane
        assert key in workable.get(lane, []), f"{key} may not be worked on"
        self._is_first_of_its_wave(key, workable[lane])
        self._takes_its_turn(lane, set(workable))
        self.expected[key].in_progress = True

    @precondition(lambda self: any(item.in_progress for item in self.expected.values()))
    @rule(data=st.data(), retry_after=st.one_of(st.none(), seconds))
    def end_work(self, data: st.DataObject, retry_after: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self._in_progress())))
        item = self.expected.pop(key)
        if retry_after is None:
            self.queue.finish_key(key)
            if item.again is not None:
                self._put(key, *item.again)
        else:
            when = self.now + retry_after
            self.queue.requeue_key_at(key, when)
            self._put(key, item.again[0] if item.again else item.place, _sooner(item.again, when))

    @invariant()
    def nothing_is_lost_and_nothing_is_twice(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert len(self.queue) == len(self.expected)
        for key in KEYS:
            assert (key in self.queue) == (key in self.expected)
            assert self.queue.is_in_progress(key) == (key in self._in_progress())
        for lane in LANES:
            pending = any(item.place.lane == lane for item in self.expected.values())
            assert self.queue.has_keys_in(lane) == pending
        # Whoever cannot be worked on at this moment is not waiting for a turn.
        workable = self._workable()
        for lane in list(self.passed):
            if lane not in workable:
                del self.passed[lane]

    def teardown(self) -> None:
        """Whatever was left is worked on in the end, once each, and nothing is remembered."""
        if not hasattr(self, "queue"):
            return
        for key in self._in_progress():
            self.end_work_finally(key)
        worked_on = []
        while len(self.queue):
            self.now = max(self.now, self.queue.next_due() or self.now)
            key = self.queue.next_key(self.now)
            assert key is not None or self.queue.next_due() is not None, "keys that nobody can work on"
            if key is not None:
                worked_on.append(key)
                self.queue.finish_key(key)
        assert sorted(worked_on) == sorted(self.expected)
        assert self.queue.next_lane(math.inf) is None
        assert self.queue._lanes == self.queue._turns == self.queue._followers == {}
        assert (self.queue._delayed, self.queue.delayed_lanes) == (0, 0)

    def end_work_finally(self, key: str) -> None:
        self.queue.finish_key(key)
        if self.expected[key].again is None:
            del self.expected[key]

    def _put(self, key: str, place: Place[str], due: float | None) -> None:
        self.number += 1
        self.expected[key] = Expected(place, due, self.number)

    def _in_progress(self) -> list[str]:
        return [key for key, item in self.expected.items() if item.in_progress]

    def _end_delays(self) -> None:
        ended = [item for item in self.expected.values() if item.due is not None and item.due <= self.now]
        for item in sorted(ended, key=lambda item: (item.due, item.number)):
            self.number += 1
            item.due, item.number = None, self.number
        self.held = {lane: until for lane, until in self.held.items() if until > self.now}

    def _workable(self) -> dict[str, list[str]]:
        """By lane, the keys that may be worked on."""
        found: dict[str, list[str]] = {}
        for key, item in self.expected.items():
            place = item.place
            busy = sum(1 for each in self._in_progress() if self.expected[each].place.lane == place.lane)
            is_free = place.lane not in self.held and busy < self.per_lane
            if item.due is None and not item.in_progress and is_free and not self._is_held_back(place):
                found.setdefault(place.lane, []).append(key)
        return found

    def _is_held_back(self, place: Place[str]) -> bool:
        if place.follows is not None:
            ahead = self.expected.get(place.follows)
            return ahead is not None and ahead.place.group == place.group
        return any(
            (other.place.lane, other.place.group) == (place.lane, place.group) and other.place.wave < place.wave
            for other in self.expected.values()
            if other.place.follows is None
        )

    def _is_first_of_its_wave(self, key: str, workable: list[str]) -> None:
        place = self.expected[key].place
        if place.follows is None:
            for other in workable:
                if self.expected[other].place[1:] == place[1:]:
                    assert self.expected[key].number <= self.expected[other].number, f"{other} was queued before {key}"

    def _takes_its_turn(self, lane: str, waiting: set[str]) -> None:
        """Nobody has a second turn while another waits for its first."""
        for other in waiting - {lane}:
            assert lane not in self.passed[other].lanes, f"{lane} had two turns while {other} waited"
            self.passed[other].lanes.add(lane)
        self.passed.pop(lane, None)


def _sooner(again: tuple[Place[str], float | None] | None, when: float) -> float | None:
    if again is None:
        return when
    return None if again[1] is None else min(again[1], when)


TestWorkQueue = Queue.TestCase
TestWorkQueue.settings = settings(max_examples=in_proportion(80), stateful_step_count=40, deadline=None)
