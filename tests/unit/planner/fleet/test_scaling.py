"""Pools grow and shrink with their load, and no tenant is moved back and forth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.messages import (
    AddEngineInstance,
    DrainEngineInstance,
    MoveTenant,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience
from services.planner.domain.fleet.pools.scaling import (
    OVERLOAD,
    TARGET,
    Scaling,
    reason_to_hold,
    scale,
    wanted_instances,
)
from services.planner.domain.fleet.rows import EngineInstanceRow, Fleet, Holding, InstanceHealth, TenantHere
from tests.unit.examples import in_proportion
from tests.unit.planner.fleet.simulated_fleet import POOL, SimulatedFleet, pool_fleet
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.given import at

NOW = at(10_000)
MINUTES = timedelta(minutes=1)
FIRST, SECOND, THIRD = "north-general-1", "north-general-2", "north-general-3"


def loaded(sizes: Mapping[str, tuple[int, ...]], pool: EnginePool = POOL, **changes: Any) -> Fleet:
    """Instances of a pool, with the sizes of the tenants on each."""
    fleet = pool_fleet(len(sizes), pool, **changes)
    placed = [(instance, size) for instance, on in sizes.items() for size in on]
    tenants = {
        ("local", f"team-{number}"): TenantHere(UUID(int=number + 1), 0, instance, size)
        for number, (instance, size) in enumerate(placed)
    }
    held = {known: Holding(len(on), sum(on), objects=True) for known, on in sizes.items() if on}
    return replace(fleet, tenants=tenants, holdings=held)


def row_of(fleet: Fleet, instance: str, **changes: Any) -> Fleet:
    return fleet.with_instance(replace(fleet.instances[instance], **changes))


def scaled(fleet: Fleet, burdens: Burdens | None = None, held: str = "") -> Scaling:
    return scale(fleet, burdens or Burdens(), NOW, Patience(), held)


def ordered(scaling: Scaling) -> list[object]:
    return [order.order for order in scaling.orders]


SIZES = {
    "nothing": (0, {}, 1),
    "nothing, and no spare": (0, {"spare": 0, "minimum": 0}, 0),
    "one Application": (1, {}, 2),
    "as much as one carries": (1750, {}, 2),
    "a little more": (1751, {}, 3),
    "more than the limit": (10**9, {}, 20),
    "less than the limit": (0, {"minimum": 4}, 4),
}


@pytest.mark.parametrize(("load", "pool", "wanted"), SIZES.values(), ids=SIZES)
def test_instances_when_a_load_is_to_be_carried_then_so_many_are_wanted(
    load: int, pool: dict[str, int], wanted: int
) -> None:
    assert wanted_instances(load, replace(POOL, **pool)) == wanted


def test_pool_when_its_load_asks_for_more_then_instances_are_added_under_names_that_were_never_given_out() -> None:
    fleet = row_of(loaded({FIRST: (2400,), SECOND: ()}), SECOND, state="retired")
    first, second = ordered(scaled(fleet))
    assert isinstance(first, AddEngineInstance)
    assert (first.id, first.namespace, first.wanted_version) == (THIRD, f"gitops-service-argocd-{THIRD}", "3.2.11")
    assert isinstance(second, AddEngineInstance)
    assert second.id == "north-general-4"


def test_pool_when_instances_are_on_their_way_then_no_more_are_added() -> None:
    assert ordered(scaled(row_of(loaded({FIRST: (1000,), SECOND: ()}), SECOND, state="provisioning"))) == []


def test_pool_when_an_instance_has_failed_then_none_is_added_and_operators_are_told() -> None:
    fleet = row_of(loaded({FIRST: (5000,), SECOND: ()}), SECOND, state="failed", state_message="no manifests")
    scaling = scaled(fleet)
    assert ordered(scaling) == []
    assert scaling.pools[0].message == f"no instance is added: {SECOND} has failed, no manifests"


def test_pool_when_it_has_as_many_as_it_may_then_operators_are_told() -> None:
    scaling = scaled(loaded({FIRST: (5000,)}, replace(POOL, maximum=1)))
    assert ordered(scaling) == []
    assert scaling.pools[0].message == "it needs 4 instances, and has at most 1 (--max)"


def test_pool_when_fewer_are_enough_then_it_shrinks_after_a_time_and_by_the_emptiest() -> None:
    before = loaded({FIRST: (100,), SECOND: (10,), THIRD: (100,)})
    scaling = scaled(before)
    assert ordered(scaling) == []
    (waiting,) = scaling.pools
    assert waiting.shrinks_at == NOW + Patience().shrink
    scaling = scaled(before.with_pool(replace(waiting, shrinks_at=NOW)))
    assert ordered(scaling) == [DrainEngineInstance(SECOND)]
    assert scaling.pools[0].leaving == SECOND


def test_pool_when_its_load_comes_back_in_time_then_it_does_not_shrink() -> None:
    pool = replace(POOL, shrinks_at=NOW)
    assert scaled(loaded({FIRST: (1200,), SECOND: (1200,)}, pool)).pools[0].shrinks_at is None


KEPT: dict[str, dict[str, Any]] = {
    "somebody else looks after it": {"wanted_version": None},
    "it is full of those that just came": {},
}


@pytest.mark.parametrize("changes", KEPT.values(), ids=KEPT)
def test_instance_when_it_may_not_be_given_up_then_another_is(changes: dict[str, Any]) -> None:
    before = loaded({FIRST: (10,), SECOND: (20,), THIRD: (30,)}, replace(POOL, shrinks_at=NOW))
    before = row_of(before, FIRST, **changes)
    late = frozenset() if changes else frozenset({UUID(int=1)})
    assert ordered(scaled(before, Burdens(moved_of_late=late))) == [DrainEngineInstance(SECOND)]


def test_instance_when_it_is_given_up_then_its_tenants_move_and_then_it_is_retired() -> None:
    pool = replace(POOL, leaving=SECOND)
    draining = row_of(loaded({FIRST: (10,), SECOND: (20,), THIRD: (5,)}, pool), SECOND, state="draining")
    assert ordered(scaled(draining)) == [MoveTenant("local", "team-1", THIRD)]
    drained = row_of(loaded({FIRST: (10,), SECOND: (), THIRD: (25,)}, pool), SECOND, state="drained")
    assert ordered(scaled(drained)) == [RetireEngineInstance(SECOND)]
    assert scaled(drained).pools[0].leaving is None


def test_instance_when_it_is_given_up_and_needed_again_then_it_stays() -> None:
    pool = replace(POOL, leaving=SECOND)
    before = row_of(loaded({FIRST: (2400,), SECOND: (100,)}, pool), SECOND, state="draining")
    assert ordered(scaled(before)) == [UndrainEngineInstance(SECOND)]


def test_instance_when_an_operator_undrains_it_then_it_is_not_given_up_any_more() -> None:
    before = loaded({FIRST: (1000,), SECOND: (1000,)}, replace(POOL, leaving=SECOND))
    assert scaled(before).pools[0].leaving is None


def test_tenants_when_the_fleet_is_rearranged_by_somebody_else_then_none_is_moved_but_the_pool_grows() -> None:
    pool = replace(POOL, leaving=SECOND, spare=0)
    draining = row_of(loaded({FIRST: (10,), SECOND: (20,)}, pool), SECOND, state="draining")
    scaling = scaled(draining, held="a rollout is under way")
    assert ordered(scaling) == []
    assert scaling.pools[0].message == f"{SECOND} waits to be given up: a rollout is under way"
    assert len(ordered(scaled(loaded({FIRST: (2000,)}), held="a rollout is under way"))) == 2


@pytest.mark.parametrize(("reason", "added"), [("HeartbeatLost", 1), ("ApiFailing", 0)])
def test_pool_when_remediation_gives_an_instance_up_then_another_is_added_unless_its_cluster_is_out_of_reach(
    reason: str, added: int
) -> None:
    before = loaded({FIRST: (10,), SECOND: (20,)})
    told = InstanceHealth(FIRST, 3, "Down", reason, "", "", None, at(0), at(0), None)
    assert ordered(scaled(replace(before, health={FIRST: told}))) == []
    assert len(ordered(scaled(replace(before, health={FIRST: told}, cordoned={FIRST: "why"})))) == added


def test_fleet_when_tenants_leave_an_instance_that_is_down_then_pools_move_none() -> None:
    fleet = loaded({FIRST: (1,), SECOND: ()}).with_move(replace(MOVE, source=FIRST, target=SECOND))
    assert reason_to_hold(fleet) == ""
    down = InstanceHealth(FIRST, 0, "Down", "", "", "", None, NOW, NOW, None)
    assert reason_to_hold(replace(fleet, health={FIRST: down})) == f"tenants leave {FIRST}, which is down"


EXACT = replace(POOL, spare=0, maximum=2)
OVERLOADED = {FIRST: (1000, 700, 500), SECOND: (100,)}


def test_instance_when_overloaded_for_long_then_the_fewest_tenants_leave_that_relieve_it() -> None:
    before = loaded(OVERLOADED, EXACT)
    (first,) = scaled(before).overloads
    assert (first.engine_instance_id, first.relieved_at) == (FIRST, NOW + Patience().overload)
    due = Burdens({FIRST: Overload(FIRST, NOW)})
    scaling = scaled(before, due)
    assert ordered(scaling) == [MoveTenant("local", "team-2", SECOND)]
    assert scaling.overloads[0].relieved_at > NOW


def test_instance_when_overloaded_no_more_then_that_is_forgotten() -> None:
    due = Burdens({FIRST: Overload(FIRST, NOW)})
    scaling = scaled(loaded({FIRST: (2000,), SECOND: (10,)}, EXACT), due)
    assert (scaling.overloads_gone, ordered(scaling)) == ((FIRST,), [])


def test_tenant_when_moved_of_late_or_too_large_for_any_then_it_stays() -> None:
    due = Burdens({FIRST: Overload(FIRST, NOW)}, frozenset({UUID(int=2), UUID(int=3)}))
    full = loaded({FIRST: (1000, 700, 500), SECOND: (1700,)})
    assert [each for each in ordered(scaled(full, due)) if isinstance(each, MoveTenant)] == []


def diurnal(base: int, hour: float) -> int:
    """Least at midnight, two and a half times as much at noon."""
    return math.ceil(base * (0.4 + 0.3 * (1 - math.cos(2 * math.pi * hour / 24))))


def test_day_when_the_load_rises_and_falls_then_instances_follow_it_and_no_tenant_moves_twice() -> None:
    bases = {("local", f"team-{number}"): 1 + number * 7 % 15 for number in range(2000)}
    world = SimulatedFleet(pool_fleet(6))
    world.place_evenly({name: diurnal(base, 0) for name, base in bases.items()})
    counts = []
    for minute in range(0, 24 * 60, 5):
        sizes = {name: diurnal(base, minute / 60) for name, base in bases.items()}
        world.live(sizes, 5 * MINUTES)
        counts.append(len(world.serving))
        assert max(world.fullness().values()) <= 1
    directions = [after > before for before, after in pairwise(counts) if before != after]
    assert max(world.moves.values()) == 1
    assert max(counts) == wanted_instances(sum(sizes_at(bases, 12).values()), POOL)
    assert counts[-1] < max(counts)
    assert directions == sorted(directions, reverse=True), counts


def sizes_at(bases: Mapping[tuple[str, str], int], hour: float) -> dict[tuple[str, str], int]:
    return {name: diurnal(base, hour) for name, base in bases.items()}


@settings(max_examples=in_proportion(60))
@given(
    loads=st.lists(st.lists(st.integers(0, 900), min_size=8, max_size=8), min_size=2, max_size=12),
    maximum=st.integers(1, 8),
)
def test_pool_when_its_load_is_any_then_its_limits_hold_and_no_tenant_moves_twice(
    loads: list[list[int]], maximum: int
) -> None:
    pool = replace(POOL, maximum=maximum, capacity=1000)
    world = SimulatedFleet(pool_fleet(1, pool))
    world.place_evenly({("local", f"team-{number}"): size for number, size in enumerate(loads[0])})
    for sizes in loads:
        for _ in range(4):
            world.live({("local", f"team-{number}"): size for number, size in enumerate(sizes)}, 25 * MINUTES)
            assert 1 <= len(world.serving) <= maximum
            assert max(world.moves.values(), default=0) <= 1


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.lists(st.integers(0, 400), max_size=6))
def test_instance_when_relieved_then_neither_it_nor_a_target_is_overloaded_by_that(
    here: list[int], there: list[int]
) -> None:
    pool = replace(POOL, capacity=1000, maximum=2, minimum=2)
    before = loaded({FIRST: tuple(here), SECOND: tuple(there)}, pool)
    moved = ordered(scaled(before, Burdens({FIRST: Overload(FIRST, NOW), SECOND: Overload(SECOND, NOW)})))
    size = {name: tenant.deployments for name, tenant in before.tenants.items()}
    arrived = sum(size[each.tenant] for each in moved if isinstance(each, MoveTenant) and each.target == SECOND)
    if arrived:
        assert sum(here) > OVERLOAD * 1000
        assert sum(there) + arrived <= TARGET * 1000


def test_instance_when_of_another_ring_cluster_or_class_then_it_is_not_of_the_pool() -> None:
    others: list[dict[str, Any]] = [{"ring": "early"}, {"engine_cluster": "south"}, {"engine_class": "dedicated"}]
    fleet = loaded({FIRST: (1,), SECOND: (), THIRD: ()})
    rows: list[EngineInstanceRow] = [replace(fleet.instances[SECOND], **each) for each in others]
    for row in rows:
        assert len(ordered(scaled(fleet.with_instance(row).with_instance(replace(row, id=THIRD))))) == 1
