"""A fleet that has changed becomes even again by few moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.fleet.moves.rebalance import PlacedTenant, Relocation, rebalance
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.placement.placement import BOUND, place
from services.planner.domain.ids import tenant_id
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant

FLEET = [
    PlacementCandidate(f"engine-{number}", f"argocd-{number}", accepting=True, engine=DEFAULT_ENGINE, capacity=2500)
    for number in range(10)
]
LEAVING = {"accepting": False, "leaving": True}
MOST_MOVED = 0.15


def tenant(number: int) -> Tenant:
    workspace = f"workspace-{number}"
    return Tenant(tenant_id(workspace, "web"), workspace, "web", 0, "")


def placed_on(instance: PlacementCandidate, number: int, load: int, cluster: str = "") -> PlacedTenant:
    """A tenant there, which may be in any region and ring."""
    here = replace(tenant(number), engine_instance_id=instance.id)
    return PlacedTenant(here, load, Affinity(here.workspace, engine_cluster=cluster))


def settled(sizes: Iterable[int], instances: list[PlacementCandidate]) -> list[PlacedTenant]:
    """Tenants as they are placed when they come one after the other."""
    load: Counter[str] = Counter()
    found = []
    for number, size in enumerate(sizes):
        chosen = place(tenant(number), instances, load)
        load[chosen.id] += size
        found.append(placed_on(chosen, number, size))
    return found


def after(placed: Iterable[PlacedTenant], moves: Iterable[Relocation]) -> list[PlacedTenant]:
    targets = {move.placed.tenant.id: move.target.id for move in moves}
    return [
        replace(each, tenant=replace(each.tenant, engine_instance_id=targets[each.tenant.id]))
        if each.tenant.id in targets
        else each
        for each in placed
    ]


def carried(placed: Iterable[PlacedTenant]) -> Counter[str]:
    load: Counter[str] = Counter()
    for each in placed:
        load[each.tenant.engine_instance_id] += each.load
    return load


def spread(placed: list[PlacedTenant], instances: list[PlacementCandidate]) -> tuple[float, float]:
    """What the fullest and the emptiest carry, as a multiple of their share."""
    load, capacity = carried(placed), sum(each.capacity for each in instances)
    fullness = [load[each.id] * capacity / (load.total() * each.capacity) for each in instances]
    return max(fullness), min(fullness)


@pytest.fixture(scope="module")
def sizes() -> list[int]:
    """10,000 tenants, each with a project and Applications: 25,000, of which most have one or two, and one has 400."""
    return [1 + int(400 / (number * 7919 % 10_000 + 1) ** 0.64) for number in range(10_000)]


def test_fleet_when_it_is_even_then_nobody_moves(sizes: list[int]) -> None:
    assert rebalance(settled(sizes, FLEET), FLEET, {}) == []


def test_fleet_when_an_instance_is_added_then_it_gets_its_share_from_those_who_prefer_it(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET[:9])
    moves = rebalance(placed, FLEET, {})
    assert {move.target for move in moves} == {FLEET[9]}
    assert len(moves) <= MOST_MOVED * len(placed)
    assert sum(move.placed.load for move in moves) <= MOST_MOVED * sum(sizes)
    assert spread(after(placed, moves), FLEET)[0] <= BOUND
    assert carried(after(placed, moves))[FLEET[9].id] >= 0.95 * sum(sizes) / len(FLEET)


def test_fleet_when_an_instance_leaves_then_its_tenants_move_and_nobody_else(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET)
    left = [*FLEET[:9], replace(FLEET[9], **LEAVING)]
    moves = rebalance(placed, left, {})
    assert {move.placed.tenant.engine_instance_id for move in moves} == {FLEET[9].id}
    assert carried(after(placed, moves))[FLEET[9].id] == 0
    assert len(moves) <= MOST_MOVED * len(placed)
    assert spread(after(placed, moves), FLEET[:9])[0] <= BOUND


def test_fleet_when_others_are_coming_already_then_nobody_moves_in_their_place(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET[:9])
    on_their_way = {move.placed.tenant.id for move in rebalance(placed, FLEET, {})}
    others = [each for each in placed if each.tenant.id not in on_their_way]
    coming = {FLEET[9].id: sum(each.load for each in placed if each.tenant.id in on_their_way)}
    assert rebalance(others, FLEET, coming) == []


def test_fleet_when_a_new_instance_is_down_then_nobody_moves_to_it(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET[:9])
    assert rebalance(placed, FLEET, {})
    assert rebalance(placed, [*FLEET[:9], replace(FLEET[9], is_down=True)], {}) == []


def test_instance_when_it_carries_too_much_then_it_is_brought_to_its_share_by_few_moves(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET)
    crowded = [
        replace(each, load=each.load * 2) if each.tenant.engine_instance_id == "engine-0" else each for each in placed
    ]
    assert spread(crowded, FLEET)[0] > BOUND
    moves = rebalance(crowded, FLEET, {})
    assert {move.placed.tenant.engine_instance_id for move in moves} == {"engine-0"}
    assert len(moves) < MOST_MOVED * len(placed)
    assert 0.95 < spread(after(crowded, moves), FLEET)[0] < 1.1


def test_instance_when_it_is_full_then_nobody_comes_and_nobody_has_to_go(sizes: list[int]) -> None:
    placed = settled(sizes, FLEET[:9])
    full = [*FLEET[:8], replace(FLEET[8], accepting=False), FLEET[9]]
    moves = rebalance(placed, full, {})
    assert {move.target for move in moves} == {FLEET[9]}


def test_workspace_when_an_instance_is_dedicated_to_it_then_its_tenants_go_there_and_no_others() -> None:
    own = replace(FLEET[9], dedicated_to="workspace-3")
    placed = settled([5] * 50, FLEET[:9])
    (move,) = [each for each in rebalance(placed, [*FLEET[:9], own], {}) if each.target == own]
    assert move.placed.tenant.workspace == "workspace-3"


@pytest.mark.parametrize("changes", [{"accepting": False}, LEAVING, {"unready": True}], ids=str)
def test_workspace_when_its_own_instance_takes_nobody_then_its_tenants_go_to_no_shared_one(changes: Any) -> None:
    own = replace(FLEET[0], dedicated_to="workspace-3", **changes)
    placed = [placed_on(own, 3, 5), *(placed_on(FLEET[1], number, 5) for number in range(10, 50))]
    assert own.id not in {move.placed.tenant.engine_instance_id for move in rebalance(placed, [own, *FLEET[1:]], {})}


BOUND_HERE, BOUND_THERE = "here", "there"


def clusters(here: int, there: int) -> list[PlacementCandidate]:
    """So many instances of two engine clusters."""
    return [
        replace(each, engine_cluster=BOUND_HERE if number < here else BOUND_THERE)
        for number, each in enumerate(FLEET[: here + there])
    ]


def on(instance: PlacementCandidate, numbers: Iterable[int], bound_to: str = "") -> list[PlacedTenant]:
    return [placed_on(instance, n, 10, bound_to) for n in numbers]


def test_cluster_when_added_then_tenants_that_are_bound_to_another_stay_in_that_and_others_come() -> None:
    fleet = clusters(here=1, there=1)
    placed = on(fleet[0], range(4), BOUND_HERE) + on(fleet[0], range(4, 10))
    moves = rebalance(placed, fleet, {})
    assert {move.target.id for move in moves} == {fleet[1].id}
    assert {move.placed.affinity.engine_cluster for move in moves} == {""}
    assert carried(after(placed, moves)) == {fleet[0].id: 50, fleet[1].id: 50}


def test_tenants_when_all_are_bound_to_one_cluster_then_its_instances_share_them_whatever_others_there_are() -> None:
    fleet = clusters(here=2, there=3)
    placed = on(fleet[0], range(9), BOUND_HERE) + on(fleet[1], [9], BOUND_HERE)
    assert carried(after(placed, rebalance(placed, fleet, {}))) == {fleet[0].id: 50, fleet[1].id: 50}


def test_instance_when_to_be_retired_then_tenants_that_are_bound_to_its_cluster_go_within_it_or_stay() -> None:
    fleet = clusters(here=2, there=1)
    leaving = replace(fleet[0], **LEAVING)
    placed = on(leaving, range(4), BOUND_HERE)
    assert {move.target for move in rebalance(placed, [leaving, *fleet[1:]], {})} == {fleet[1]}
    assert rebalance(placed, [leaving, fleet[2]], {}) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=60),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["accepting", "full", "leaving"])), min_size=1, max_size=10),
)
def test_fleet_whatever_it_is_when_evened_out_then_nobody_moves_twice_and_it_stays_so(
    given_tenants: list[tuple[int, int]], given_instances: list[tuple[int, str]]
) -> None:
    fleet = [
        replace(FLEET[number], capacity=capacity, accepting=state == "accepting", leaving=state == "leaving")
        for number, (capacity, state) in enumerate(given_instances)
    ]
    placed = [placed_on(FLEET[at], number, load) for number, (at, load) in enumerate(given_tenants)]
    moves = rebalance(placed, fleet, {})
    assert len({move.placed.tenant.id for move in moves}) == len(moves)
    assert moves == rebalance(list(reversed(placed)), fleet[::-1], {})
    assert rebalance(after(placed, moves), fleet, {}) == []


AFFINITIES = st.tuples(st.sampled_from((None, "eu", "us")), st.sampled_from(("", "canary", "general")))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500), AFFINITIES), max_size=60),
    st.lists(
        st.tuples(
            st.integers(1, 5),
            st.sampled_from(["accepting", "full", "leaving"]),
            st.sampled_from(["eu", "us"]),
            st.sampled_from(["canary", "general"]),
        ),
        min_size=1,
        max_size=10,
    ),
)
def test_fleet_whatever_tenants_are_assigned_to_then_who_moves_goes_where_it_may_be_and_nobody_twice(
    given_tenants: list[tuple[int, int, tuple[str | None, str]]], given_instances: list[tuple[int, str, str, str]]
) -> None:
    fleet = [
        replace(
            FLEET[number],
            capacity=capacity,
            accepting=state == "accepting",
            leaving=state == "leaving",
            region=region,
            ring=ring,
        )
        for number, (capacity, state, region, ring) in enumerate(given_instances)
    ]
    placed = [
        replace(placed_on(FLEET[at], number, load), affinity=Affinity(f"workspace-{number}", *wanted))
        for number, (at, load, wanted) in enumerate(given_tenants)
    ]
    moves = rebalance(placed, fleet, {})
    assert all(move.placed.affinity.admits(move.target) for move in moves)
    assert len({move.placed.tenant.id for move in moves}) == len(moves)
    assert moves == rebalance(placed[::-1], fleet[::-1], {})
    there = {each.id: each for each in fleet}
    misplaced = [
        each
        for each in after(placed, moves)
        if not each.affinity.admits(there.get(each.tenant.engine_instance_id, FLEET[0]))
    ]
    assert not [each for each in misplaced if any(each.affinity.admits(instance) for instance in fleet)]


def test_instance_when_its_queue_stands_then_tenants_leave_it_as_if_it_carried_more() -> None:
    placed = on(FLEET[0], range(5)) + on(FLEET[1], range(5, 10))
    assert rebalance(placed, FLEET[:2], {}) == []
    moves = rebalance(placed, FLEET[:2], {FLEET[0].id: 40})
    assert {(move.placed.tenant.engine_instance_id, move.target.id) for move in moves} == {("engine-0", "engine-1")}
