from __future__ import annotations

from services.watcher.turns import Turns


def all_of(turns: Turns[str]) -> list[str]:
    taken = []
    while turns.owner() is not None:
        taken.append(turns.take())
    return taken


def filled(*items: str) -> Turns[str]:
    """Items named for their owner: its first character."""
    turns: Turns[str] = Turns()
    for item in items:
        turns.add(item[0], item)
    return turns


def test_items_when_of_several_owners_then_the_owners_take_turns_and_each_keeps_its_order() -> None:
    assert all_of(filled("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_owner_when_it_comes_late_then_it_need_not_wait_for_all_of_another() -> None:
    turns = filled(*(f"a{number}" for number in range(1000)))
    turns.take()
    turns.add("b", "b1")
    assert "b1" in [turns.take(), turns.take()]


def test_item_when_it_waits_already_then_it_stays_where_it_is() -> None:
    assert all_of(filled("a1", "a2", "a1")) == ["a1", "a2"]


def test_owner_when_it_rests_then_it_is_passed_over_until_it_resumes() -> None:
    turns = filled("a1", "a2", "b1")
    turns.rest()
    turns.add("a", "a3")
    assert all_of(turns) == ["b1"]
    turns.resume("a")
    assert all_of(turns) == ["a1", "a2", "a3"]


def test_owner_when_it_resumes_with_nothing_then_nothing_is_taken() -> None:
    turns = filled("a1")
    turns.rest()
    turns.drop("a", "a1")
    turns.resume("a")
    assert turns.owner() is None


def test_items_when_dropped_then_others_go_on() -> None:
    turns = filled("a1", "a2", "b1")
    turns.drop("a", "a1")
    turns.drop("b", "b1")
    turns.drop("c", "c1")
    assert all_of(turns) == ["a2"]
    assert "a" not in turns


def test_turns_when_cleared_then_nobody_waits() -> None:
    turns = filled("a1", "b1")
    turns.clear()
    assert all_of(turns) == []
