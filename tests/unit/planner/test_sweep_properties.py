"""Whatever lists show or lack: a sweep removes what its list lacked or nothing, and an approval what was shown."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.ids import resource_id
from services.planner.domain.policy import Policy, SweepGuard
from tests.unit.planner.given import WORKSPACE, changed, gone, resync
from tests.unit.planner.world import World

numbers = st.sets(st.integers(0, 9))
guards = st.builds(SweepGuard, st.sampled_from([0.2, 0.5, 1.0]), st.integers(0, 4))


def see(world: World, second: int, shown: set[int], epoch: int) -> None:
    """Half of them in another namespace; versions that do not change, as a list shows them."""
    for number in sorted(shown):
        namespace = f"team-{number % 2}"
        world.take(changed(second, f"web-{number}", uid=f"uid-{number}", namespace=namespace, version=1, epoch=epoch))


def there(world: World) -> set[int]:
    return {int(each.uid.removeprefix("uid-")) for each in world.deployments.values() if each.present}


def epochs(before: set[int], shown: set[int], seen: set[int], ended: set[int], late: set[int]) -> dict[int, int]:
    """The newest list that has shown each, by the order in which they are seen."""
    newest = dict.fromkeys(before, 1) | dict.fromkeys(shown, 5) | dict.fromkeys(seen, 6)
    kept = {number: epoch for number, epoch in newest.items() if number not in ended}
    return dict.fromkeys(late, 4) | kept


def refused(world: World) -> set[str]:
    return {subject for row in world.refused_sweeps.values() for subject in json.loads(row.subjects)}


@given(numbers, numbers, guards)
def test_sweep_when_a_list_lacks_some_then_all_of_these_go_or_none_and_the_guard_says_which(
    before: set[int], shown: set[int], guard: SweepGuard
) -> None:
    world = World(policy=Policy(guard=guard))
    see(world, 10, before, epoch=1)
    see(world, 20, shown, epoch=5)
    world.take(resync(30, epoch=5))
    lacking, known = before - shown, before | shown
    if len(lacking) <= max(guard.minimum, guard.share * len(known)):
        assert (there(world), refused(world)) == (shown, set())
    else:
        assert there(world) == known
        assert refused(world) == {str(resource_id(WORKSPACE, f"uid-{number}")) for number in lacking}


@given(numbers, numbers, numbers, numbers, numbers)
def test_sweep_when_it_was_refused_and_is_approved_later_then_all_still_unseen_go_or_none_if_some_were_not_shown(
    before: set[int], shown: set[int], seen: set[int], ended: set[int], late: set[int]
) -> None:
    world = World(policy=Policy(guard=SweepGuard(share=0.0, minimum=0)))
    see(world, 10, before, epoch=1)
    see(world, 20, shown, epoch=5)
    world.take(resync(30, epoch=5))
    rows = list(world.refused_sweeps.values())
    see(world, 40, seen, epoch=6)
    for number in sorted(ended & there(world)):
        world.take(gone(50, f"web-{number}", uid=f"uid-{number}", namespace=f"team-{number % 2}"))
    see(world, 60, late, epoch=4)
    at_last = there(world)
    for row in rows:
        world.take(resync(70, epoch=row.epoch, approved=row.digest))
    newest = epochs(before, shown, seen, ended, late)
    unseen = {number for number in at_last if newest[number] < 5}
    assert at_last - there(world) == (unseen if unseen <= before - shown else set())


@given(numbers, numbers, st.integers(1, 4))
def test_sweep_when_its_marker_comes_again_or_late_then_it_changes_nothing_more(
    before: set[int], shown: set[int], epoch: int
) -> None:
    world = World(policy=Policy(guard=SweepGuard(share=1.0)))
    see(world, 10, before, epoch=1)
    see(world, 20, shown, epoch=5)
    world.take(resync(30, epoch=5))
    expected = world.rows()
    world.take(resync(30, epoch=5))
    world.take(resync(40, epoch=epoch))
    assert world.rows() == expected
