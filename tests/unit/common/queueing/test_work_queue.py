"""Order of work: waves within a lane, lanes in turn, one worker per key."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from services.common.queueing import Place, WorkQueue

Queue = WorkQueue[str]
NOW = 100.0


def up(lane: str, wave: int) -> Place[str]:
    return Place(lane, wave, "present")


def down(lane: str, wave: int) -> Place[str]:
    """Deletions go the other way."""
    return Place(lane, -wave, "absent")


def after(key: str) -> Place[str]:
    return Place("a", 2, "present", follows=key)


def filled(*keys: str) -> Queue:
    """Keys named for their lane: their first character."""
    queue = Queue()
    for key in keys:
        queue.add_key(key, Place(key[0]))
    return queue


def all_of(queue: Queue, now: float = NOW) -> list[str]:
    """What can be worked on at once, in order; it stays in progress."""
    taken = []
    while (key := queue.next_key(now)) is not None:
        taken.append(key)
    return taken


# Turns


def test_keys_when_of_several_lanes_then_the_lanes_take_turns_and_each_keeps_its_order() -> None:
    assert all_of(filled("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_lane_when_it_comes_late_then_it_need_not_wait_for_all_of_another() -> None:
    queue = filled(*(f"a{number}" for number in range(1000)))
    queue.next_key(NOW)
    queue.add_key("b1", Place("b"))
    assert "b1" in [queue.next_key(NOW), queue.next_key(NOW)]


def test_lane_when_its_only_key_flips_between_places_then_it_has_one_turn_like_any_other() -> None:
    queue = Queue()
    for number in range(50):
        queue.add_key("flip", up("a", 1) if number % 2 else down("a", 1))
    for name in ("b1", "b2"):
        queue.add_key(name, up("b", 1))
    turns = []
    for number in range(3):
        key = queue.next_key(NOW)
        assert key is not None
        turns.append(key)
        queue.finish_key(key)
        queue.add_key("flip", up("a", 1) if number % 2 else down("a", 1))
    assert turns == ["flip", "b1", "flip"]
    assert queue.next_key(NOW) == "b2"


def test_lane_when_its_key_flips_while_it_waits_then_it_does_not_lose_its_turn() -> None:
    queue = filled("a1", "b1", "c1")
    queue.add_key("a1", Place("a", 7))
    assert queue.next_key(NOW) == "a1"


# Dedupe and loss


def test_key_when_it_is_queued_already_then_it_stays_where_it_is() -> None:
    assert all_of(filled("a1", "a2", "a1")) == ["a1", "a2"]


def test_key_when_added_while_in_progress_then_it_is_worked_on_once_more() -> None:
    queue = filled("a1")
    assert all_of(queue) == ["a1"]
    queue.add_key("a1", Place("a"))
    queue.add_key("a1", Place("a"))
    assert all_of(queue) == []
    queue.finish_key("a1")
    assert all_of(queue) == ["a1"]
    queue.finish_key("a1")
    assert len(queue) == 0


def test_key_when_it_moves_to_another_lane_then_it_is_worked_on_once() -> None:
    queue = Queue()
    queue.add_key("key", Place("a"))
    queue.add_key("key", Place("b"))
    assert all_of(queue) == ["key"]
    assert not queue.has_keys_in("a")


def test_keys_when_removed_then_others_go_on() -> None:
    queue = filled("a1", "a2", "b1")
    for key in ("a1", "b1", "c1"):
        queue.remove_key(key)
    assert all_of(queue) == ["a2"]
    assert not queue.has_keys_in("b")


def test_key_when_removed_while_in_progress_then_only_its_second_time_is_dropped() -> None:
    queue = filled("a1")
    assert all_of(queue) == ["a1"]
    queue.add_key("a1", Place("a"))
    queue.remove_key("a1")
    assert queue.is_in_progress("a1")
    queue.finish_key("a1")
    assert len(queue) == 0


def test_key_when_it_is_finished_without_being_in_progress_then_that_is_an_error() -> None:
    with pytest.raises(ValueError, match="a1"):
        filled("a1").finish_key("a1")


def test_queue_when_cleared_then_nothing_waits_and_nobody_is_held_back() -> None:
    queue = filled("a1", "b1")
    queue.add_key_at("c1", Place("c"), NOW)
    queue.delay_lane("a", NOW + 9)
    queue.clear()
    assert all_of(queue, NOW + 10) == []
    queue.add_key("a1", Place("a"))
    assert all_of(queue) == ["a1"]


# Waves


def test_higher_wave_when_a_lower_one_is_in_progress_or_delayed_then_it_waits() -> None:
    queue = Queue()
    queue.add_key("project", up("a", 0))
    queue.add_key("app", up("a", 1))
    assert all_of(queue) == ["project"]
    queue.requeue_key_at("project", NOW + 5)
    assert all_of(queue) == []
    assert queue.next_due() == NOW + 5
    assert queue.next_key(NOW + 5) == "project"
    queue.finish_key("project")
    assert queue.next_key(NOW + 5) == "app"


def test_lower_wave_when_it_comes_after_the_higher_was_queued_then_it_goes_first() -> None:
    queue = Queue()
    queue.add_key("app", up("a", 1))
    queue.add_key("project", up("a", 0))
    assert all_of(queue) == ["project"]
    queue.finish_key("project")
    assert all_of(queue) == ["app"]


def test_creation_when_deletions_are_pending_then_it_does_not_wait_for_them() -> None:
    queue = Queue()
    queue.add_key("old", down("a", 1))
    queue.add_key("old-project", down("a", 0))
    assert all_of(queue) == ["old"], "higher waves are deleted first"
    queue.requeue_key_at("old", NOW + 60)
    queue.add_key("project", up("a", 0))
    assert all_of(queue) == ["project"]


def test_follower_when_another_key_of_its_lane_hangs_then_it_does_not_wait() -> None:
    queue = Queue()
    for key in ("hanging", "app"):
        queue.add_key(key, up("a", 1))
    assert all_of(queue) == ["hanging", "app"]
    queue.requeue_key_at("hanging", NOW + 60)
    queue.add_key("sync", after("app"))
    assert all_of(queue) == []
    queue.finish_key("app")
    assert all_of(queue) == ["sync"]


def test_follower_when_its_key_comes_after_it_was_queued_then_it_waits() -> None:
    queue = Queue()
    queue.add_key("sync", after("app"))
    queue.add_key("app", up("a", 1))
    assert all_of(queue) == ["app"]
    queue.finish_key("app")
    assert all_of(queue) == ["sync"]


def test_follower_when_its_key_is_of_another_group_or_is_worked_on_once_more_then_only_the_latter_holds_it() -> None:
    queue = Queue()
    queue.add_key("app", up("a", 1))
    queue.add_key("sync", after("app"))
    assert all_of(queue) == ["app"]
    queue.add_key("app", up("a", 1))
    queue.finish_key("app")
    assert all_of(queue) == ["app"]
    queue.add_key("app", down("a", 1))
    queue.finish_key("app")
    assert sorted(all_of(queue)) == ["app", "sync"]


# Delays


def test_key_when_added_while_delayed_then_it_does_not_wait_any_longer() -> None:
    queue = filled("a1")
    assert all_of(queue) == ["a1"]
    queue.requeue_key_at("a1", NOW + 60)
    queue.add_key("a1", Place("a"))
    assert all_of(queue) == ["a1"]
    assert queue.next_due() is None


def test_key_when_delayed_twice_then_the_earlier_moment_counts() -> None:
    queue = Queue()
    for seconds in (9, 3, 6):
        queue.add_key_at("a1", Place("a"), NOW + seconds)
    assert queue.next_due() == NOW + 3
    assert all_of(queue, NOW + 2) == []
    assert all_of(queue, NOW + 3) == ["a1"]


def test_key_when_delayed_while_in_progress_then_it_comes_again_at_that_time() -> None:
    queue = filled("a1")
    assert all_of(queue) == ["a1"]
    queue.add_key_at("a1", Place("a"), NOW + 3)
    queue.requeue_key_at("a1", NOW + 9)
    assert all_of(queue, NOW + 2) == []
    assert all_of(queue, NOW + 3) == ["a1"]


def test_delays_when_they_are_ended_again_and_again_then_nothing_of_them_is_kept() -> None:
    queue = Queue()
    for _ in range(10_000):
        queue.add_key_at("a1", Place("a"), NOW + 60)
        queue.add_key("a1", Place("a"))
        queue.finish_key(all_of(queue)[0])
    assert len(queue._timers) < 100


# Bounds and lanes held back


def test_keys_when_as_many_are_in_progress_as_may_then_the_next_waits_for_one_of_them() -> None:
    queue = Queue(limit=3, limit_per_lane=2)
    for key in ("a1", "a2", "a3", "b1", "c1"):
        queue.add_key(key, Place(key[0]))
    assert all_of(queue) == ["a1", "b1", "c1"]
    queue.finish_key("b1")
    assert all_of(queue) == ["a2"]
    queue.finish_key("c1")
    assert all_of(queue) == [], "a has two in progress"
    queue.finish_key("a1")
    assert all_of(queue) == ["a3"]


def test_lane_when_held_back_then_it_is_passed_over_until_then() -> None:
    queue = filled("a1", "a2", "b1")
    queue.delay_lane("a", NOW + 5)
    queue.add_key("a3", Place("a"))
    assert (all_of(queue), queue.delayed_lanes) == (["b1"], 1)
    assert (all_of(queue, NOW + 5), queue.delayed_lanes) == (["a1", "a2", "a3"], 0)


def test_lane_when_held_back_with_nothing_to_do_then_it_is_forgotten_afterwards() -> None:
    queue = filled("a1")
    queue.delay_lane("a", NOW + 5)
    queue.remove_key("a1")
    assert all_of(queue, NOW + 6) == []
    assert queue._lanes == {}


def test_next_key_when_its_lane_is_asked_for_before_then_it_is_a_key_of_that_lane() -> None:
    queue = filled("a1", "b1", "a2")
    for key in ("a1", "b1", "a2"):
        assert (queue.next_lane(NOW), queue.next_key(NOW)) == (key[0], key)
    assert queue.next_lane(NOW) is None


def test_key_when_popped_then_it_is_not_pending_and_its_lane_is_last_in_turn() -> None:
    queue = filled("a1", "a2", "b1")
    assert queue.pop_key(NOW) == "a1"
    assert "a1" not in queue
    assert [queue.pop_key(NOW), queue.pop_key(NOW), queue.pop_key(NOW)] == ["b1", "a2", None]
    assert queue._lanes == {}


# Cost


class CountedKey(str):
    """Counts how often it is looked up."""

    __slots__ = ()
    looked_up: ClassVar[Counter[str]] = Counter()

    def __hash__(self) -> int:
        self.looked_up["all"] += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


@pytest.mark.parametrize("keys", [100, 25_000])
def test_operations_when_there_are_many_keys_then_each_costs_as_much_as_with_few(keys: int) -> None:
    queue = Queue()
    for number in range(keys):
        queue.add_key(CountedKey(f"key-{number}"), Place(f"lane-{number % (keys * 2 // 5)}", number % 2))
    CountedKey.looked_up.clear()
    worked_on = 0
    while (key := queue.next_key(NOW)) is not None:
        worked_on += 1
        queue.requeue_key_at(key, NOW + 1 + worked_on)
    assert worked_on >= keys // 2
    assert CountedKey.looked_up["all"] < 20 * worked_on
