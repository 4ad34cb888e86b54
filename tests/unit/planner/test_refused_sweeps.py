"""A resync that would remove too much removes nothing, until an operator has approved what it was shown to remove."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from services.planner.domain.policy import Policy, SweepGuard
from services.planner.rows.consumption import RefusedSweep
from tests.unit.planner.given import ENVIRONMENT, changed, environment, gone, resync
from tests.unit.planner.world import World

PLACE = ("local", "GitOpsDeployment", 0)


@pytest.fixture
def crowd(world: World) -> World:
    """Ten deployments, of which a list that began at epoch 5 lacked eight; that was refused."""
    return crowded(world)


def crowded(world: World) -> World:
    world.policy = Policy(guard=SweepGuard(share=0.5, minimum=2))
    see(world, range(10), epoch=1)
    see(world, range(2), epoch=5)
    world.take(resync(30, epoch=5))
    return world


def see(world: World, numbers: Iterable[int], epoch: int) -> None:
    world.take(*(changed(10 + number, f"web-{number}", uid=f"uid-{number}", epoch=epoch) for number in numbers))


def refused(world: World) -> RefusedSweep:
    (row,) = world.refused_sweeps.values()
    return row


def left(world: World) -> list[str]:
    """Names of the deployments whose CR is there."""
    return sorted(each.name for each in world.deployments.values() if each.present)


def approve(world: World, of: RefusedSweep | None = None) -> None:
    known = of or refused(world)
    world.take(resync(40, epoch=known.epoch, approved=known.digest))


def test_refusal_when_it_is_remembered_then_it_says_what_would_go_of_how_many(crowd: World) -> None:
    row = refused(crowd)
    unseen = sorted(str(each.id) for each in crowd.deployments.values() if each.epoch < 5)
    assert (row.known, row.epoch, json.loads(row.subjects)) == (10, 5, unseen)
    assert len(left(crowd)) == 10


def test_refusal_when_approved_then_what_was_shown_goes_and_nothing_is_refused_any_more(crowd: World) -> None:
    approve(crowd)
    assert (left(crowd), crowd.refused_sweeps) == (["web-0", "web-1"], {})


def test_refusal_when_it_comes_in_one_batch_with_its_approval_then_what_was_shown_goes_as_when_they_were_new(
    crowd: World,
) -> None:
    """As in the replay of a log, where little lies between the two."""
    row, replayed = refused(crowd), World()
    replayed.policy = crowd.policy
    see(replayed, range(10), epoch=1)
    see(replayed, range(2), epoch=5)
    other = resync(31, epoch=6, kind=ENVIRONMENT)
    replayed.take(resync(30, epoch=5), other, resync(40, epoch=row.epoch, approved=row.digest))
    assert (left(replayed), replayed.refused_sweeps) == (["web-0", "web-1"], {})


def test_refusal_when_approved_twice_then_the_second_finds_nothing_to_remove(crowd: World) -> None:
    row = refused(crowd)
    approve(crowd)
    see(crowd, [2], epoch=1000)
    approve(crowd, row)
    assert left(crowd) == ["web-0", "web-1", "web-2"]


def test_refusal_when_some_were_seen_before_the_approval_then_those_stay(crowd: World) -> None:
    see(crowd, [7], epoch=5)
    approve(crowd)
    assert left(crowd) == ["web-0", "web-1", "web-7"]


def test_refusal_when_more_would_go_than_was_shown_then_the_approval_is_refused_and_shows_all(world: World) -> None:
    """One is there again, from a list that began before the refused one: what is left of it was still there."""
    world.take(changed(1, "late", uid="uid-late", epoch=1))
    world.take(gone(2, "late", uid="uid-late"))
    crowd = crowded(world)
    crowd.take(changed(25, "late", uid="uid-late", epoch=4))
    shown = refused(crowd)
    approve(crowd)
    assert len(left(crowd)) == 11
    assert len(json.loads(refused(crowd).subjects)) == 9
    assert refused(crowd).digest != shown.digest


def test_refusal_when_a_newer_list_was_refused_then_the_approval_of_the_older_removes_nothing(crowd: World) -> None:
    older = refused(crowd)
    see(crowd, [0], epoch=9)
    crowd.take(resync(35, epoch=9))
    approve(crowd, older)
    assert len(left(crowd)) == 10
    assert refused(crowd).epoch == 9


@pytest.mark.parametrize("digest", ["", "another"])
def test_marker_when_it_does_not_name_what_was_shown_then_it_removes_nothing(crowd: World, digest: str) -> None:
    crowd.take(resync(40, epoch=5, approved=digest))
    assert len(left(crowd)) == 10


def test_refusal_when_a_better_list_comes_then_it_is_forgotten(crowd: World) -> None:
    see(crowd, range(9), epoch=9)
    crowd.take(resync(40, epoch=9))
    assert (len(left(crowd)), crowd.refused_sweeps) == (9, {})


def test_refusal_when_lists_of_other_kinds_and_partitions_come_then_it_stays(crowd: World) -> None:
    crowd.take(environment(31), resync(40, epoch=9, kind=ENVIRONMENT), resync(40, epoch=9, partition=3))
    assert crowd.refused_sweeps.keys() == {PLACE}


@pytest.mark.parametrize("epochs", [(6, 7), (7, 6)])
def test_refusal_when_two_lists_of_one_place_come_in_one_batch_then_the_newest_is_written_alone(
    crowd: World, epochs: tuple[int, int]
) -> None:
    changes = crowd.take(*(resync(40, epoch=epoch) for epoch in epochs), resync(40, epoch=1))
    assert [row.epoch for row in changes.refused_sweeps] == [7]
    assert refused(crowd).epoch == 7


def test_refusal_when_a_list_of_before_comes_late_then_it_stays(crowd: World) -> None:
    crowd.take(resync(40, epoch=1))
    assert refused(crowd).epoch == 5


def test_refusal_when_all_of_it_goes_by_itself_then_its_approval_changes_nothing_else(crowd: World) -> None:
    crowd.take(*(gone(50 + number, f"web-{number}", uid=f"uid-{number}") for number in range(2, 10)))
    approve(crowd)
    assert (left(crowd), crowd.refused_sweeps) == (["web-0", "web-1"], {})


def test_list_when_it_is_complete_then_that_is_remembered_whether_or_not_its_sweep_is_refused(crowd: World) -> None:
    crowd.take(resync(40, epoch=9, kind=ENVIRONMENT))
    assert crowd.complete_lists == {PLACE: 5, ("local", ENVIRONMENT, 0): 9}


@pytest.mark.parametrize("epochs", [(6, 7), (7, 6)])
def test_list_when_two_of_one_place_come_in_one_batch_then_the_newest_is_remembered(
    crowd: World, epochs: tuple[int, int]
) -> None:
    changes = crowd.take(*(resync(40, epoch=epoch) for epoch in epochs))
    assert [each.epoch for each in changes.lists_completed] == [7]


def test_list_when_an_older_one_comes_late_then_the_newer_is_remembered(crowd: World) -> None:
    crowd.take(resync(40, epoch=4))
    assert crowd.complete_lists == {PLACE: 5}
