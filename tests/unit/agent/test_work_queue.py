"""Order of work: waves within a lane, lanes in turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.agent.objects import ObjectKey
from services.agent.work_queue import Place, WorkQueue

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str) -> ObjectKey:
    return ObjectKey("Application", "argocd", name)


def up(lane: str, wave: int) -> Place:
    return Place(lane, wave, absent=False)


def down(lane: str, wave: int) -> Place:
    return Place(lane, wave, absent=True)


def taken(queue: WorkQueue) -> list[str]:
    names = []
    while (item := queue.take(NOW)) is not None:
        names.append(item.name)
    return names


def test_lanes_when_one_is_long_then_they_take_turns() -> None:
    queue = WorkQueue()
    for number in range(4):
        queue.mark(key(f"a{number}"), up("a", 1))
    queue.mark(key("b0"), up("b", 1))
    assert taken(queue) == ["a0", "b0", "a1", "a2", "a3"]


def test_higher_wave_when_a_lower_one_is_running_or_waiting_then_it_is_held_back() -> None:
    queue = WorkQueue()
    queue.mark(key("project"), up("a", 0))
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == ["project"]
    queue.wait(key("project"), NOW + timedelta(seconds=5))
    assert taken(queue) == []
    assert queue.due() == NOW + timedelta(seconds=5)
    later = NOW + timedelta(seconds=5)
    assert queue.take(later) == key("project")
    queue.finish(key("project"))
    assert queue.take(later) == key("app")


def test_lower_wave_when_it_comes_after_the_higher_was_ready_then_it_goes_first() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    queue.mark(key("project"), up("a", 0))
    assert taken(queue) == ["project"]
    queue.finish(key("project"))
    assert taken(queue) == ["app"]


def test_deletions_when_in_one_lane_then_higher_waves_go_first() -> None:
    queue = WorkQueue()
    queue.mark(key("project"), down("a", 0))
    queue.mark(key("app"), down("a", 1))
    assert taken(queue) == ["app"]
    queue.finish(key("app"))
    assert taken(queue) == ["project"]


def test_creation_when_deletions_are_pending_in_the_lane_then_it_does_not_wait_for_them() -> None:
    queue = WorkQueue()
    queue.mark(key("old"), down("a", 1))
    assert taken(queue) == ["old"]
    queue.wait(key("old"), NOW + timedelta(seconds=60))
    queue.mark(key("project"), up("a", 0))
    assert taken(queue) == ["project"]


def test_object_when_marked_while_worked_on_then_it_is_taken_once_more() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == ["app"]
    queue.mark(key("app"), up("a", 1))
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == []
    queue.finish(key("app"))
    assert taken(queue) == ["app"]
    queue.finish(key("app"))
    assert len(queue) == 0


def test_object_when_marked_while_waiting_then_it_does_not_wait_any_longer() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == ["app"]
    queue.wait(key("app"), NOW + timedelta(seconds=60))
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == ["app"]
    assert queue.due() is None


def test_object_when_it_moves_to_another_lane_then_it_is_taken_once() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    queue.mark(key("app"), up("b", 1))
    assert taken(queue) == ["app"]


def after(name: str) -> Place:
    return Place("a", 2, absent=False, follows=key(name))


def test_follower_when_another_object_of_its_lane_hangs_then_it_does_not_wait() -> None:
    queue = WorkQueue()
    for name in ("hanging", "app"):
        queue.mark(key(name), up("a", 1))
    assert taken(queue) == ["hanging", "app"]
    queue.wait(key("hanging"), NOW + timedelta(seconds=60))
    queue.mark(key("sync"), after("app"))
    assert taken(queue) == []
    queue.finish(key("app"))
    assert taken(queue) == ["sync"]


def test_follower_when_its_object_becomes_pending_after_it_was_ready_then_it_waits() -> None:
    queue = WorkQueue()
    queue.mark(key("sync"), after("app"))
    queue.mark(key("app"), up("a", 1))
    assert taken(queue) == ["app"]
    queue.finish(key("app"))
    assert taken(queue) == ["sync"]


def test_follower_when_its_object_is_going_or_is_worked_on_once_more_then_only_the_latter_holds_it() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    queue.mark(key("sync"), after("app"))
    assert taken(queue) == ["app"]
    queue.mark(key("app"), up("a", 1))
    queue.finish(key("app"))
    assert taken(queue) == ["app"]
    queue.mark(key("app"), down("a", 1))
    queue.finish(key("app"))
    assert sorted(taken(queue)) == ["app", "sync"]


def test_follower_when_everything_is_done_then_nothing_is_remembered() -> None:
    queue = WorkQueue()
    queue.mark(key("app"), up("a", 1))
    queue.mark(key("sync"), after("app"))
    queue.mark(key("sync"), after("other"))
    for name in taken(queue):
        queue.finish(key(name))
    assert len(queue) == 0
    assert queue._followers == {}
