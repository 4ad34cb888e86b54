"""What a list lacks is decided on as a whole, and removed in parts; what happens between two of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kinds.shared.resource import Cause
from services.planner.domain.changes import Changes
from services.planner.domain.events import SweepDue, SweepScope
from services.planner.domain.ids import resource_id
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.domain.sweeps import SweepFound, decide_sweep, replace_part, split_sweep, subjects_of
from services.planner.rows.consumption import SweepPart
from services.planner.rows.tenants import TenantName
from tests.unit.planner.given import WORKSPACE, at, changed, gone, resync
from tests.unit.planner.world import World

SCOPE = SweepScope("local", "Snapshot", 3, 5)
CAUSE = Cause(at(1), "trace")
LARGE, SMALL = (WORKSPACE, "large"), (WORKSPACE, "small")


def lacked(*tenants: tuple[TenantName, int]) -> dict[UUID, TenantName]:
    return {
        resource_id(name, f"uid-{number}"): (workspace, name)
        for (workspace, name), count in tenants
        for number in range(count)
    }


def sizes(parts: Sequence[SweepPart]) -> list[int]:
    return [len(subjects_of(part)) for part in parts]


def test_sweep_when_it_is_split_then_no_part_is_larger_and_each_resource_is_in_one() -> None:
    unseen = lacked((LARGE, 25))
    parts = split_sweep(SCOPE, unseen, CAUSE, at_once=10)
    assert sizes(parts) == [10, 10, 5]
    assert sorted(subject for part in parts for subject in subjects_of(part)) == sorted(unseen)
    assert [(part.turn, part.kind, part.epoch, part.seen_at, part.trace_id) for part in parts] == [
        (turn, "Snapshot", 5, at(1), "trace") for turn in range(3)
    ]


def test_sweep_when_nothing_is_lacked_then_there_is_no_part() -> None:
    assert split_sweep(SCOPE, {}, CAUSE, at_once=10) == ()


def test_sweep_when_one_tenant_lacks_many_then_what_another_lacks_is_in_the_first_part() -> None:
    first, *_ = split_sweep(SCOPE, lacked((LARGE, 1000), (SMALL, 3)), CAUSE, at_once=10)
    assert set(subjects_of(first)) >= lacked((SMALL, 3)).keys()


def test_part_when_it_is_refused_then_its_halves_take_its_place_and_nothing_that_of_a_single_resource() -> None:
    *_, part = split_sweep(SCOPE, lacked((LARGE, 7)), CAUSE, at_once=4)
    changes = replace_part(SweepDue(17, part))
    halves = changes.sweep_parts
    assert (sizes(halves), changes.sweep_parts_done) == ([1, 2], (17,))
    assert [each for half in halves for each in subjects_of(half)] == subjects_of(part)
    assert [replace(half, subjects="") for half in halves] == [replace(part, subjects="")] * 2
    assert replace_part(SweepDue(18, halves[0])) == Changes(sweep_parts_done=(18,))


def test_found_when_some_of_it_goes_already_then_that_counts_as_gone() -> None:
    found = SweepFound(known=10, unseen=lacked((LARGE, 4)))
    decided = {*list(found.unseen)[:3], resource_id("another", "uid")}
    left = found.without(decided)
    assert (left.known, len(left.unseen)) == (7, 1)


@pytest.fixture
def crowd(world: World) -> World:
    """Ten deployments, of which a list of epoch 5 lacked six; they go two at a time, and two have gone."""
    world.policy = Policy(guard=SweepGuard(share=0.6, minimum=0, at_once=2))
    see(world, range(10), epoch=1)
    see(world, range(4), epoch=5)
    world.take_batch(resync(30, epoch=5))
    world.take_due_sweeps(most=1)
    return world


def see(world: World, numbers: Sequence[int] | range, epoch: int) -> None:
    world.take_batch(*(changed(10, f"web-{number}", uid=f"uid-{number}", version=1, epoch=epoch) for number in numbers))


def left(world: World) -> set[int]:
    return {int(each.uid.removeprefix("uid-")) for each in world.deployments.values() if each.present}


def waiting(world: World) -> list[int]:
    """Numbers of the deployments that are still to go, in the order in which they do."""
    numbers = {resource_id(WORKSPACE, f"uid-{number}"): number for number in range(20)}
    parts = sorted(world.sweep_parts.values(), key=lambda part: part.turn)
    return [numbers[subject] for part in parts for subject in subjects_of(part)]


def test_sweep_when_it_is_decided_then_it_is_carried_out_in_parts_without_being_decided_again(crowd: World) -> None:
    """What is left to go is a larger share of what is left, part by part, than a list may remove."""
    crowd.policy = replace(crowd.policy, guard=replace(crowd.policy.guard, share=0.0))
    assert len(left(crowd)) == 8
    assert [len(each.deployments) for each in crowd.take_due_sweeps()] == [2, 2]
    assert (left(crowd), crowd.sweep_parts, crowd.refused_sweeps) == (set(range(4)), {}, {})


def test_resource_when_it_is_seen_between_two_parts_then_it_stays(crowd: World) -> None:
    seen = waiting(crowd)[-1]
    see(crowd, [seen], epoch=6)
    crowd.take_due_sweeps()
    assert left(crowd) == {*range(4), seen}


def test_resource_when_a_late_command_tells_of_it_between_two_parts_then_it_goes(crowd: World) -> None:
    number = waiting(crowd)[-1]
    crowd.take_batch(changed(29, f"web-{number}", uid=f"uid-{number}", generation=2, epoch=4))
    crowd.take_due_sweeps()
    assert left(crowd) == set(range(4))


def test_resource_when_its_name_is_taken_between_two_parts_then_the_new_one_stays(crowd: World) -> None:
    name = f"web-{waiting(crowd)[-1]}"
    crowd.take_batch(changed(31, name, uid="uid-19", epoch=6))
    crowd.take_due_sweeps()
    assert left(crowd) == {*range(4), 19}


def test_resource_when_it_is_deleted_between_two_parts_then_its_part_removes_the_others(crowd: World) -> None:
    number = waiting(crowd)[-1]
    crowd.take_batch(gone(31, f"web-{number}", uid=f"uid-{number}"))
    crowd.take_due_sweeps()
    assert (left(crowd), crowd.sweep_parts) == (set(range(4)), {})


def test_list_when_it_is_complete_between_two_parts_then_what_goes_already_counts_as_gone(crowd: World) -> None:
    """Of four that the former list has shown, the newer lacks one; together with what is left of it, that is a half."""
    crowd.policy = replace(crowd.policy, guard=replace(crowd.policy.guard, share=0.3))
    see(crowd, range(3), epoch=9)
    crowd.take_batch(resync(40, epoch=9))
    assert crowd.refused_sweeps == {}
    assert sorted(waiting(crowd))[0] == 3
    assert len(waiting(crowd)) == 5
    crowd.take_due_sweeps()
    assert left(crowd) == {0, 1, 2}


def test_list_when_it_is_refused_between_two_parts_then_the_former_sweep_goes_on(crowd: World) -> None:
    see(crowd, [0], epoch=9)
    crowd.take_batch(resync(40, epoch=9))
    (refused,) = crowd.refused_sweeps.values()
    assert (refused.known, len(orjson.loads(refused.subjects))) == (4, 3)
    crowd.take_due_sweeps()
    assert left(crowd) == set(range(4))


def test_marker_when_it_comes_again_between_two_parts_then_nothing_is_decided_twice(crowd: World) -> None:
    parts = dict(crowd.sweep_parts)
    crowd.take_batch(resync(30, epoch=5))
    assert crowd.sweep_parts == parts


def test_markers_when_two_of_one_place_are_in_one_batch_then_nothing_is_decided_twice(world: World) -> None:
    see(world, range(5), epoch=1)
    world.take_batch(resync(30, epoch=5), resync(31, epoch=6))
    assert sorted(waiting(world)) == list(range(5))


def test_approval_when_carried_out_in_parts_then_what_was_not_shown_stays(world: World) -> None:
    """A command of before the list revives one that had gone: no part has it."""
    world.policy = Policy(guard=SweepGuard(share=0.0, minimum=0, at_once=2))
    see(world, range(6), epoch=1)
    world.take(gone(11, "web-5", uid="uid-5"))
    world.take(resync(30, epoch=5))
    (refused,) = world.refused_sweeps.values()
    world.take_batch(resync(40, epoch=5, approved=refused.digest))
    world.take_due_sweeps(most=1)
    world.take_batch(changed(25, "web-5", uid="uid-5", epoch=4))
    world.take_due_sweeps()
    assert left(world) == {5}


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 5), st.integers(1, 4))
def test_sweep_when_something_is_seen_after_any_of_its_parts_then_it_ends_as_if_it_had_no_parts(
    lacking: set[int], seen: set[int], after: int, at_once: int
) -> None:
    world = World(policy=Policy(guard=SweepGuard(share=1.0, at_once=at_once)))
    see(world, range(10), epoch=1)
    see(world, sorted(set(range(10)) - lacking), epoch=5)
    world.take_batch(resync(30, epoch=5))
    world.take_due_sweeps(most=after)
    see(world, sorted(seen), epoch=6)
    world.take_due_sweeps()
    assert left(world) == set(range(10)) - lacking | seen
    assert world.sweep_parts == {}


def test_marker_when_it_is_planned_for_one_tenant_alone_then_the_guard_looks_at_all_and_that_tenants_resources_go() -> (
    None
):
    """As when a parked tenant goes on."""
    found = SweepFound(known=20, unseen=lacked((LARGE, 10), (SMALL, 2)))
    some = SweepGuard(share=0.6, minimum=0)
    (part,) = decide_sweep(SCOPE, found, "", CAUSE, some, only=SMALL).sweep_parts
    assert set(subjects_of(part)) == lacked((SMALL, 2)).keys()
    refused = decide_sweep(SCOPE, found, "", CAUSE, replace(some, share=0.5), only=SMALL)
    assert (refused.sweep_parts, len(refused.refused_sweeps)) == ((), 1)
