"""Moves give way while changes of others wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.move_orders import begin_moves
from services.planner.domain.fleet.moves.pace import INCREASE_AFTER, STALLED_AFTER, Latency, Pace, is_waited, next_pace
from services.planner.domain.fleet.rows import MovePath
from tests.unit.planner.fleet.test_fleet_orders import NOW
from tests.unit.planner.fleet.test_move_orders import TWO, at_step, fleet

AT_ONCE = 4
SOON, LATER = NOW + INCREASE_AFTER / 2, NOW + INCREASE_AFTER


@pytest.mark.parametrize(
    ("clusters", "are_waiting"),
    [
        ([], False),
        ([Latency(2, 2)], False),
        ([Latency(3, 3)], True),
        ([Latency(60, 3)], False),
        ([Latency(59, 3)], True),
        ([Latency(10_000, 20), Latency(5, 3)], True),
    ],
)
def test_changes_when_they_take_long_for_more_than_one_tenant_in_twenty_of_a_cluster_then_they_wait(
    clusters: list[Latency], *, are_waiting: bool
) -> None:
    assert is_waited(clusters) == are_waiting


def test_pace_when_changes_wait_then_an_instance_moves_one_tenant_at_a_time() -> None:
    assert next_pace(None, NOW, AT_ONCE, is_waiting=True) == Pace(1, NOW)


def test_pace_when_none_waits_then_moves_yield_above_to_nobody() -> None:
    assert next_pace(None, NOW, AT_ONCE, is_waiting=False) is None


def test_pace_when_changes_wait_again_then_there_is_one_place_and_the_time_without_begins_anew() -> None:
    still = next_pace(Pace(3, NOW), SOON, AT_ONCE, is_waiting=True)
    assert still == Pace(1, SOON)
    assert next_pace(still, LATER, AT_ONCE, is_waiting=False) == still


def test_pace_when_none_waits_any_more_then_there_is_one_place_more_after_each_time_until_there_are_all() -> None:
    pace: Pace | None = Pace(1, NOW)
    places = []
    for look in range(1, 8):
        pace = next_pace(pace, NOW + look * INCREASE_AFTER / 2, AT_ONCE, is_waiting=False)
        places.append(pace.places if pace is not None else AT_ONCE)
    assert places == [1, 2, 2, 3, 3, AT_ONCE, AT_ONCE]
    assert pace is None


def test_pace_when_there_is_one_place_anyway_then_nothing_is_less() -> None:
    assert next_pace(None, NOW, 1, is_waiting=True) is None


def waiting(path: MovePath, paced: int) -> Fleet:
    """A fleet in which six moves wait, to three instances."""
    targets = ("two", "three", "four")
    moves = [
        at_step("ordered", id=UUID(int=n), tenant_id=UUID(int=n), path=path, target=targets[n % 3]) for n in range(6)
    ]
    before = fleet(moves=moves)
    rows = {each: replace(TWO, id=each, namespace=f"argocd-{each}") for each in targets}
    return replace(before, instances={**before.instances, **rows}, pace=Pace(paced, NOW))


@pytest.mark.parametrize(("paced", "begun"), [(1, 1), (2, 2), (3, 3)])
def test_moves_when_they_give_way_then_no_more_begin_than_an_instance_has_places_for_by_then(
    paced: int, begun: int
) -> None:
    after = begin_moves(waiting("whole", paced), NOW, AT_ONCE)
    assert Counter(move.step for move in after.moves.values()) == {"reserved": begun, "ordered": 6 - begun}
    assert begin_moves(after, NOW, AT_ONCE) == after, "those under way count likewise"


def test_moves_when_their_source_is_down_then_they_give_way_to_nobody() -> None:
    after = begin_moves(waiting("forced", 1), NOW, AT_ONCE)
    assert {move.step for move in after.moves.values()} == {"reserved"}


def test_moves_when_those_under_way_stand_for_long_then_the_next_does_not_wait_for_them() -> None:
    """A tenant that keeps its own move would keep all others from leaving the instance."""
    begun = begin_moves(waiting("whole", 1), NOW, AT_ONCE)
    just, then = NOW + STALLED_AFTER - timedelta(seconds=1), NOW + STALLED_AFTER
    assert begin_moves(begun, just, AT_ONCE) is begun
    after = begin_moves(begun, then, AT_ONCE)
    assert [move.step_since for move in after.moves.values() if move.step == "reserved"] == [NOW, then]
    for turn in range(2, 9):
        after = begin_moves(after, NOW + turn * STALLED_AFTER, AT_ONCE)
    assert Counter(move.step for move in after.moves.values()) == {"reserved": AT_ONCE, "ordered": 6 - AT_ONCE}, "ever"
