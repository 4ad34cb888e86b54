"""Pools grow and shrink with their load, and no tenant is moved back and forth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import groupby, pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.messages import (
    AddEngineInstance,
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.database.pool_queries import STAYS
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.orders import decide_order
from services.planner.domain.fleet.placement.assignments import TenantPin
from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience
from services.planner.domain.fleet.pools.pool_size import OVERLOAD, TARGET, lacking_instances
from services.planner.domain.fleet.pools.relief import has_overloaded
from services.planner.domain.fleet.pools.scaling import Scaling, find_veto_of_moves, instances_rearranged, scale
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow
from tests.unit.examples import in_proportion
from tests.unit.planner.fleet.loaded_fleet import with_tenants
from tests.unit.planner.fleet.simulated_fleet import POOL, SimulatedFleet, pool_fleet, with_capacities
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.given import at

NOW = at(10_000)
MINUTES = timedelta(minutes=1)
FIRST, SECOND, THIRD = "north-general-1", "north-general-2", "north-general-3"


ROLLOUT = Rollout(
    UUID(int=3), "3.3.0", "", "general", 60, False, "provisioning", "general", 0, False, "", "[]", "[]", "", 20, 0,
    "", "ada", NOW, NOW, NOW, None,
)  # fmt: skip
DOWN = InstanceHealth(FIRST, 3, "Down", "HeartbeatLost", "", "", None, at(0), at(0), None)


def loaded(sizes: Mapping[str, tuple[int, ...]], pool: EnginePool = POOL, **changes: Any) -> Fleet:
    """Instances of a pool, with the sizes of the tenants on each."""
    fleet = pool_fleet(len(sizes), pool, **changes)
    placed = [(instance, size) for instance, on in sizes.items() for size in on]
    tenants = {
        ("local", f"team-{number}"): TenantHere(UUID(int=number + 1), 0, instance, size, load=load_of_deployments(size))
        for number, (instance, size) in enumerate(placed)
    }
    held = {known: Holding(len(on), sum(on), objects=True) for known, on in sizes.items() if on}
    load = {known: load_of_deployments(each.deployments) for known, each in held.items()}
    return replace(with_tenants(fleet, tenants), holdings=held, load=load)


def row_of(fleet: Fleet, instance: str, **changes: Any) -> Fleet:
    return fleet.with_instance(replace(fleet.instances[instance], **changes))


def pinned(fleet: Fleet, tenant: str, instance: str) -> Fleet:
    return replace(fleet, rules=fleet.rules.with_pin(TenantPin("local", tenant, instance, at(0))))


def scaled(fleet: Fleet, burdens: Burdens | None = None, veto: str = "") -> Scaling:
    return scale(fleet, burdens or Burdens(), NOW, Patience(), veto)


def ordered(scaling: Scaling) -> list[object]:
    return [order.order for order in scaling.orders]


SIZES = {
    "nothing": (0, {}, 1),
    "nothing, and no spare": (0, {"spare": 0, "minimum": 0}, 0),
    "one Application": (1, {}, 2),
    "as much as one carries": (1750, {}, 2),
    "a little more": (1751, {}, 3),
    "more than any limit": (10**9, {}, 571430),
    "less than the limit": (0, {"minimum": 4}, 4),
}


@pytest.mark.parametrize(("load", "pool", "wanted"), SIZES.values(), ids=SIZES)
def test_instances_when_a_load_is_to_be_carried_then_so_many_are_wanted(
    load: int, pool: dict[str, int], wanted: int
) -> None:
    assert lacking_instances(load_of_deployments(load), replace(POOL, **pool), 0, 0) == wanted


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


def test_pool_when_an_instance_has_failed_that_was_added_by_hand_then_it_grows_without_it() -> None:
    before = loaded({FIRST: (1000,), SECOND: ()}, replace(POOL, spare=1))
    scaling = scaled(row_of(before, SECOND, state="failed", state_message="no agent", wanted_version=None))
    assert [type(each) for each in ordered(scaling)] == [AddEngineInstance]


UNREADY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it has failed": ({"state": "failed"}, {}),
    "it is being installed": ({"state": "provisioning"}, {}),
    "it is down": ({}, {"health": {THIRD: DOWN}}),
    "it is cordoned": ({}, {"cordoned": {THIRD: "why"}}),
}


@pytest.mark.parametrize(("row", "told"), UNREADY.values(), ids=UNREADY)
def test_pool_when_an_instance_does_not_serve_then_none_that_does_is_given_up_for_it(
    row: dict[str, Any], told: dict[str, Any]
) -> None:
    pool = replace(POOL, spare=0, shrinks_at=NOW)
    before = loaded({FIRST: (500, 500, 250), SECOND: (500, 500, 250), THIRD: ()}, pool)
    scaling = scaled(replace(row_of(before, THIRD, **row), **told))
    assert ordered(scaling) == []
    assert scaling.pools[0].shrinks_at is None


BUSY = {FIRST: (1800,), SECOND: (), THIRD: ()}
OTHER_RELEASE: dict[str, dict[str, Any]] = {
    "another version": {"wanted_version": "3.1.16"},
    "another profile": {"profile": "lean"},
    "another version, as its agent tells": {"wanted_version": None},
}


@pytest.mark.parametrize("release", OTHER_RELEASE.values(), ids=OTHER_RELEASE)
def test_pool_when_a_rollout_keeps_tenants_from_some_of_its_instances_then_it_grows_without_them(
    release: dict[str, Any],
) -> None:
    before = loaded(BUSY, replace(POOL, spare=0))
    assert ordered(scaled(before)) == []
    for known in (SECOND, THIRD):
        before = row_of(before, known, **release)
    scaling = scaled(replace(before, closed=frozenset({SECOND, THIRD})))
    assert [type(each) for each in ordered(scaling)] == [AddEngineInstance]


def test_pool_when_a_rollout_keeps_tenants_from_the_release_that_it_adds_then_none_is_added_for_those_it_has() -> None:
    before = loaded(BUSY, replace(POOL, spare=0))
    assert ordered(scaled(replace(before, closed=frozenset({SECOND, THIRD})))) == []


@pytest.mark.parametrize(
    ("step", "stage", "version"),
    [("soaking", 10, None), ("soaking", 100, "3.3.0"), ("draining", 100, "3.3.0"), ("reverting", 100, None)],
)
def test_pool_when_its_ring_is_rolled_out_then_it_has_room_on_those_that_its_tenants_come_to_and_adds_such(
    step: str, stage: int, version: str | None
) -> None:
    """The new ones carry too much for themselves, and the old ones nothing."""
    before = loaded({FIRST: (), SECOND: (), THIRD: (2000,)}, replace(POOL, spare=0, version="3.1.16"))
    for known, ordered_with in {FIRST: "3.1.16", SECOND: "3.1.16", THIRD: "3.3.0"}.items():
        before = row_of(before, known, wanted_version=ordered_with)
    closed = frozenset({FIRST, SECOND} if version else {THIRD})
    rollout = replace(ROLLOUT, version="3.3.0", step=step, stage=stage)
    scaling = scaled(replace(before, closed=closed, rollout=rollout), veto="a rollout is under way")
    assert [each.wanted_version for each in ordered(scaling) if isinstance(each, AddEngineInstance)] == (
        [version] if version else []
    )
    assert scaling.pools == ()


def test_pool_when_an_instance_of_another_release_has_failed_then_it_grows_without_it() -> None:
    before = loaded({FIRST: (2000,), SECOND: ()}, replace(POOL, spare=0))
    before = row_of(before, SECOND, state="failed", state_message="why", wanted_version="3.1.16")
    assert [type(each) for each in ordered(scaled(before))] == [AddEngineInstance]


def test_pool_when_others_are_enough_then_it_gives_up_what_a_rollout_has_left_and_none_that_tenants_may_come_to() -> (
    None
):
    left = {"closed": frozenset({SECOND, THIRD})}
    pool = replace(POOL, spare=0, shrinks_at=NOW)
    before = loaded({FIRST: (100,), SECOND: (200,), THIRD: (300,)}, pool)
    assert ordered(scaled(replace(before, **left))) == [DrainEngineInstance(SECOND)]
    assert ordered(scaled(replace(loaded({**BUSY, FIRST: (1500,)}, pool), **left))) == []


def test_instance_when_it_is_given_up_and_another_fails_meanwhile_then_it_stays() -> None:
    pool = replace(POOL, spare=0, leaving=SECOND)
    before = row_of(loaded({FIRST: (1250,), SECOND: (1250,), THIRD: ()}, pool), SECOND, state="draining")
    assert [type(each) for each in ordered(scaled(before))] == [MoveTenant]
    assert ordered(scaled(row_of(before, THIRD, state="failed"))) == [UndrainEngineInstance(SECOND)]


SIX = [f"north-general-{number}" for number in range(1, 7)]


@pytest.mark.parametrize(("size", "added"), [(350, 0), (351, 1), (495, 1), (1000, 3)])
def test_pool_when_its_instances_are_smaller_than_those_that_it_adds_then_their_own_capacities_count(
    size: int, added: int
) -> None:
    pool = replace(POOL, spare=0, shrinks_at=NOW)
    scaling = scaled(with_capacities(loaded(dict.fromkeys(SIX, (size,)), pool), [500] * 6))
    assert [each.capacity for each in ordered(scaling) if isinstance(each, AddEngineInstance)] == [2500] * added
    assert len(ordered(scaling)) == added
    assert scaling.pools[0].shrinks_at is None


def test_pool_when_its_instances_are_larger_than_those_that_it_adds_then_their_own_capacities_count() -> None:
    small = replace(POOL, spare=0, capacity=500)
    assert ordered(scaled(with_capacities(loaded({FIRST: (3500,), SECOND: (3500,)}, small), [5000, 5000]))) == []


def test_pool_when_it_shrinks_then_by_the_emptiest_that_the_others_can_do_without() -> None:
    pool = replace(POOL, spare=0, shrinks_at=NOW)
    before = loaded({FIRST: (200,), SECOND: (250,), THIRD: (260,)}, pool)
    assert ordered(scaled(with_capacities(before, [2500, 500, 500]))) == [DrainEngineInstance(SECOND)]
    assert ordered(scaled(with_capacities(before, [2500, 2500, 2500]))) == [DrainEngineInstance(FIRST)]


def test_pool_when_tenants_move_within_it_then_they_count_once() -> None:
    before = loaded({FIRST: (1800,), SECOND: ()}, replace(POOL, spare=0))
    before = replace(before, load={FIRST: 18_000, SECOND: 18_000})
    moving = before.with_move(replace(MOVE, tenant_id=UUID(int=1), source=FIRST, target=SECOND))
    assert ordered(scaled(moving)) == []
    assert instances_rearranged(moving, Burdens(), NOW, "") == {FIRST}


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


@pytest.mark.parametrize("tenant", ["team-0", "to-come"])
def test_instance_when_a_tenant_is_pinned_to_it_then_another_is_given_up(tenant: str) -> None:
    before = loaded({FIRST: (10,), SECOND: (20,), THIRD: (30,)}, replace(POOL, shrinks_at=NOW))
    assert ordered(scaled(pinned(before, tenant, FIRST))) == [DrainEngineInstance(SECOND)]


def test_pool_when_tenants_are_pinned_to_all_of_its_instances_then_it_does_not_shrink() -> None:
    before = loaded({FIRST: (10,), SECOND: (20,), THIRD: ()}, replace(POOL, shrinks_at=NOW))
    for tenant, instance in (("team-0", FIRST), ("team-1", SECOND), ("to-come", THIRD)):
        before = pinned(before, tenant, instance)
    scaling = scaled(before)
    assert (ordered(scaling), scaling.pools[0].shrinks_at) == ([], None)


def test_instance_when_it_is_given_up_and_a_rule_keeps_it_then_the_pool_says_which() -> None:
    pool = replace(POOL, leaving=SECOND)
    drained = row_of(loaded({FIRST: (10,), SECOND: (), THIRD: (25,)}, pool), SECOND, state="drained")
    scaling = scaled(pinned(drained, "to-come", SECOND))
    rule = f"tenants are pinned to engine instance {SECOND}: local/to-come; 'gitopsctl engines unpin' them first"
    message = f"{SECOND} is not retired: {rule}"
    assert (ordered(scaling), scaling.pools[0].message) == ([], message)


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


@pytest.mark.parametrize(("state", "on_second"), [("draining", (100,)), ("drained", ())])
def test_instance_when_an_operator_has_drained_it_too_then_the_pool_grows_without_it(
    state: str, on_second: tuple[int, ...]
) -> None:
    pool = replace(POOL, leaving=SECOND)
    before = row_of(loaded({FIRST: (2400,), SECOND: on_second}, pool), SECOND, state=state)
    drained = decide_order(FleetOrder(UUID(int=9), "ada", NOW, DrainEngineInstance(SECOND)), before)
    assert [type(order) for order in ordered(scaled(drained.fleet))] == [AddEngineInstance, AddEngineInstance]


@pytest.mark.parametrize("leaving", [None, SECOND])
def test_pool_when_its_cluster_is_drained_then_it_neither_grows_nor_is_in_want(leaving: str | None) -> None:
    pool = replace(POOL, leaving=leaving, shrinks_at=NOW, message="why")
    before = loaded({FIRST: (2400,), SECOND: (100,)}, pool, state="draining")
    scaling = scaled(before.with_cluster(replace(before.clusters["north"], state="draining")))
    assert (ordered(scaling), scaling.pools) == ([], (replace(pool, shrinks_at=None, message=""),))
    (after,) = scaling.pools
    assert len(ordered(scaled(before.with_pool(after)))) > 0


def test_instance_when_an_operator_undrains_it_then_it_is_not_given_up_any_more() -> None:
    before = loaded({FIRST: (1000,), SECOND: (1000,)}, replace(POOL, leaving=SECOND))
    assert scaled(before).pools[0].leaving is None


def test_tenants_when_the_fleet_is_rearranged_by_somebody_else_then_none_is_moved_but_the_pool_grows() -> None:
    pool = replace(POOL, leaving=SECOND, spare=0)
    draining = row_of(loaded({FIRST: (10,), SECOND: (20,)}, pool), SECOND, state="draining")
    scaling = scaled(draining, veto="a rollout is under way")
    assert ordered(scaling) == []
    assert scaling.pools[0].message == f"{SECOND} waits to be given up: a rollout is under way"
    assert len(ordered(scaled(loaded({FIRST: (2000,)}), veto="a rollout is under way"))) == 2


OF_A_REBUILD = {
    "it would grow": (loaded({FIRST: (2400,), SECOND: (10,)}), [AddEngineInstance]),
    "it would shrink": (
        loaded({FIRST: (10,), SECOND: (20,)}, replace(POOL, spare=0, shrinks_at=NOW)),
        [DrainEngineInstance],
    ),
    "it is giving one up": (
        row_of(loaded({FIRST: (10,), SECOND: (20,)}, replace(POOL, spare=0, leaving=SECOND)), SECOND, state="draining"),
        [MoveTenant],
    ),
    "it has given one up": (
        row_of(loaded({FIRST: (10,), SECOND: ()}, replace(POOL, spare=0, leaving=SECOND)), SECOND, state="drained"),
        [RetireEngineInstance],
    ),
}


@pytest.mark.parametrize(("before", "wanted"), OF_A_REBUILD.values(), ids=OF_A_REBUILD)
def test_pool_when_the_database_is_rebuilt_then_it_does_nothing_and_says_why(before: Fleet, wanted: list[type]) -> None:
    assert [type(order) for order in ordered(scaled(before))] == wanted
    rebuilt = replace(before, is_rebuilt=True)
    scaling = scaled(rebuilt, veto=find_veto_of_moves(rebuilt))
    assert (ordered(scaling), scaling.pools[0].shrinks_at) == ([], None)
    assert scaling.pools[0].message.startswith("it neither grows nor shrinks: the database is being rebuilt")


def test_instance_when_it_is_overloaded_and_the_database_is_rebuilt_then_it_is_not_relieved() -> None:
    before = loaded({FIRST: (1000, 1000, 400), SECOND: ()}).without_pool(POOL.key)
    due = Burdens({FIRST: Overload(FIRST, NOW)})
    assert {type(order) for order in ordered(scaled(before, due))} == {MoveTenant}
    rebuilt = replace(before, is_rebuilt=True)
    assert ordered(scaled(rebuilt, due, find_veto_of_moves(rebuilt))) == []


@pytest.mark.parametrize(("reason", "added"), [("HeartbeatLost", 1), ("ApiFailing", 0)])
def test_pool_when_remediation_gives_an_instance_up_then_another_is_added_unless_its_cluster_is_out_of_reach(
    reason: str, added: int
) -> None:
    before = loaded({FIRST: (10,), SECOND: (20,)})
    told = replace(DOWN, reason=reason)
    assert ordered(scaled(replace(before, health={FIRST: told}))) == []
    assert len(ordered(scaled(replace(before, health={FIRST: told}, cordoned={FIRST: "why"})))) == added


def test_fleet_when_tenants_leave_an_instance_that_is_down_then_pools_move_none() -> None:
    fleet = loaded({FIRST: (1,), SECOND: ()}).with_move(replace(MOVE, source=FIRST, target=SECOND))
    assert find_veto_of_moves(fleet) == ""
    down = replace(fleet, health={FIRST: DOWN})
    assert find_veto_of_moves(down) == f"tenants leave {FIRST}, which is down"
    queued = down.with_move(replace(MOVE, source=FIRST, target=SECOND, step="ordered", path="forced"))
    assert find_veto_of_moves(queued) == f"tenants leave {FIRST}, which is down"
    held = replace(queued, suspended=frozenset({FIRST}))
    assert find_veto_of_moves(held) == ""
    for moving in ({"step": "reserved", "path": "forced"}, {"step": "ordered", "path": "whole"}):
        begun = held.with_move(replace(MOVE, source=FIRST, target=SECOND, **moving))
        assert find_veto_of_moves(begun) == f"tenants leave {FIRST}, which is down"
    gone = down.with_move(replace(MOVE, source=FIRST, target=SECOND, step="withdrawing", path="fenced"))
    assert find_veto_of_moves(gone) == ""


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


def alone(sizes: Mapping[str, tuple[int, ...]]) -> Fleet:
    """The same instances in no pool."""
    return replace(loaded(sizes), pools={})


DUE = Burdens({FIRST: Overload(FIRST, NOW)})


def test_instance_when_in_no_pool_and_overloaded_for_long_then_it_is_relieved_likewise() -> None:
    before = alone(OVERLOADED)
    (first,) = scaled(before).overloads
    assert (first.engine_instance_id, first.relieved_at) == (FIRST, NOW + Patience().overload)
    assert ordered(scaled(before, DUE)) == [MoveTenant("local", "team-2", SECOND)]


UNLIKE: list[dict[str, Any]] = [
    {"ring": "canary"},
    {"region": "us"},
    {"engine": "flux"},
    {"engine_class": "dedicated", "dedicated_to": "local"},
    {"state": "draining"},
    {"state": "full"},
    {"state": "provisioning"},
]


@pytest.mark.parametrize("changes", UNLIKE, ids=str)
def test_overloaded_instance_when_the_other_is_not_for_its_tenants_then_they_stay(changes: dict[str, Any]) -> None:
    assert ordered(scaled(row_of(alone(OVERLOADED), SECOND, **changes), DUE)) == []


def test_overloaded_instance_when_the_other_is_down_or_cordoned_then_its_tenants_stay() -> None:
    for told in ({"health": {SECOND: DOWN}}, {"cordoned": {SECOND: "why"}}):
        scaling = scaled(replace(alone(OVERLOADED), **told), DUE)
        assert (ordered(scaling), scaling.overloads[0].relieved_at) == ([], NOW + Patience().overload)


def test_overloaded_instance_when_no_gate_has_let_the_release_of_the_emptiest_in_then_tenants_go_to_another() -> None:
    """A rollout was aborted before its first tenant had moved: what had joined the ring for it has stayed."""
    closed = frozenset({SECOND})
    scaling = scaled(replace(alone(OVERLOADED), closed=closed), DUE)
    assert (ordered(scaling), scaling.overloads[0].relieved_at) == ([], NOW + Patience().overload)
    scaling = scaled(replace(alone({**OVERLOADED, THIRD: (200,)}), closed=closed), DUE)
    assert ordered(scaling) == [MoveTenant("local", "team-2", THIRD)]


def test_overloaded_instance_when_the_emptiest_may_not_have_its_tenant_then_the_next_is_asked() -> None:
    """It carries least, and has as many Applications as it may have, of which nobody does anything."""
    before = alone({**OVERLOADED, THIRD: (200,)})
    full = replace(before, holdings={**before.holdings, SECOND: Holding(1, POOL.capacity, objects=True)})
    assert ordered(scaled(before, DUE)) == [MoveTenant("local", "team-2", SECOND)]
    assert ordered(scaled(full, DUE)) == [MoveTenant("local", "team-2", THIRD)]


def test_instance_when_it_is_given_up_and_the_emptiest_may_not_have_its_tenant_then_that_leaves_to_another() -> None:
    pool = replace(POOL, leaving=SECOND)
    before = row_of(loaded({FIRST: (10,), SECOND: (20,), THIRD: (5,)}, pool), SECOND, state="draining")
    full = replace(before, holdings={**before.holdings, THIRD: Holding(1, POOL.capacity, objects=True)})
    assert ordered(scaled(full)) == [MoveTenant("local", "team-1", FIRST)]


def test_overloaded_instance_when_its_cluster_has_no_room_then_tenants_go_to_another_one_of_its_region() -> None:
    before = row_of(alone({**OVERLOADED, THIRD: (1000,)}), SECOND, engine_cluster="south")
    assert ordered(scaled(before, DUE)) == [MoveTenant("local", "team-2", THIRD)]
    before = row_of(alone({**OVERLOADED, THIRD: (1700,)}), SECOND, engine_cluster="south")
    assert ordered(scaled(before, DUE)) == [MoveTenant("local", "team-2", SECOND)]
    bound = {name: replace(each, of_engine_cluster=1) for name, each in before.tenants.items()}
    assert ordered(scaled(with_tenants(before, bound), DUE)) == []


def test_overloaded_instance_when_it_is_down_then_its_tenants_are_left_to_remediation() -> None:
    scaling = scaled(replace(alone(OVERLOADED), health={FIRST: DOWN}), DUE)
    assert (ordered(scaling), scaling.overloads_gone) == ([], ())


def test_overloaded_instance_when_a_rollout_is_under_way_then_it_is_relieved_after_that() -> None:
    scaling = scaled(alone(OVERLOADED), DUE, veto="a rollout is under way")
    assert (ordered(scaling), scaling.overloads, scaling.overloads_gone) == ([], (), ())


def test_overloaded_instance_when_it_is_by_its_clusters_then_those_leave_who_have_them() -> None:
    before = alone({FIRST: (100, 100, 100), SECOND: ()})
    heavy = {name: replace(each, load=10_000 - number) for number, (name, each) in enumerate(before.tenants.items())}
    measured = replace(with_tenants(before, heavy), load={FIRST: 29_997})
    assert ordered(scaled(measured, DUE)) == [MoveTenant("local", "team-0", SECOND)]
    assert ordered(scaled(replace(measured, load={FIRST: 21_250}), DUE)) == []


def test_overloaded_instance_when_those_who_leave_it_relieve_it_then_no_more_leave() -> None:
    moving = alone(OVERLOADED).with_move(replace(MOVE, tenant_id=UUID(int=2), source=FIRST, target=SECOND))
    scaling = scaled(moving, DUE)
    assert (ordered(scaling), scaling.overloads_gone) == ([], (FIRST,))


def test_look_when_an_instance_is_overloaded_then_tenants_are_read_once_it_is_due_and_of_instances_alike_it() -> None:
    before = row_of(alone({**OVERLOADED, THIRD: (5,)}), THIRD, ring="early")
    later = Burdens({FIRST: Overload(FIRST, NOW + MINUTES)})
    assert instances_rearranged(before, later, NOW, "") == set()
    assert instances_rearranged(before, DUE, NOW, "a rollout is under way") == set()
    assert instances_rearranged(before, DUE, NOW, "") == {FIRST, SECOND}


@pytest.mark.parametrize(
    ("changes", "load", "is_looked_at"),
    [({}, 21_250, False), ({}, 21_251, True), ({"state": "full"}, 25_000, True), ({"state": "drained"}, 25_000, False)],
)
def test_instances_when_measured_then_one_above_its_share_has_them_looked_at(
    changes: dict[str, Any], load: int, is_looked_at: bool
) -> None:
    row = replace(pool_fleet(1).instances[FIRST], **changes)
    assert has_overloaded(PlacementView({FIRST: row.as_candidate}, {}, load={FIRST: load})) == is_looked_at


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


DAY = timedelta(days=1)
DAILY = {("local", f"team-{number}"): 1 + number * 7 % 15 for number in range(1000)}
DAILY_POOL = replace(POOL, capacity=1250)
HOURLY = Patience(shrink=timedelta(hours=1))
"""Of a pool that gives up each night what it adds each morning."""


def diurnal_days(patience: Patience, stays: timedelta = STAYS) -> tuple[SimulatedFleet, list[int], int]:
    """Three days: the fleet then, how many instances served at each look, and the moves since the second day began."""
    world = SimulatedFleet(pool_fleet(6, DAILY_POOL), patience, stays=stays)
    world.place_evenly(sizes_at(DAILY, 0))
    second, counts = world.now + DAY, []
    for minute in range(0, 3 * 24 * 60, 10):
        world.live(sizes_at(DAILY, minute / 60), 10 * MINUTES)
        counts.append(len(world.serving))
        assert max(world.fullness().values()) <= 1
    return world, counts, world.moves_since(second)


def test_days_when_the_load_rises_and_falls_then_what_the_peak_needs_is_kept_and_nobody_moves_after_the_first() -> None:
    world, counts, later = diurnal_days(Patience())
    assert counts == sorted(counts)
    assert counts[-1] == lacking_instances(load_of_deployments(sum(sizes_at(DAILY, 12).values())), DAILY_POOL, 0, 0)
    assert (max(world.moves.values()), later) == (1, 0)


def test_days_when_a_pool_shrinks_sooner_then_instances_follow_the_load_and_no_tenant_moves_twice_within_one() -> None:
    world, counts, later = diurnal_days(HOURLY)
    directions = [after > before for before, after in pairwise(counts) if before != after]
    assert 1 < sum(1 for _ in groupby(directions)) <= 6, counts
    assert later > 0
    assert world.returns_within(DAY) == 0


def test_days_when_a_pool_shrinks_sooner_and_no_move_is_remembered_then_tenants_come_back_within_one() -> None:
    world, _, _ = diurnal_days(HOURLY, stays=timedelta(0))
    assert world.returns_within(DAY) > 0


def test_days_when_the_load_stays_low_then_the_pool_gives_up_one_instance_after_the_other() -> None:
    world = SimulatedFleet(pool_fleet(9, DAILY_POOL))
    world.place_evenly(sizes_at(DAILY, 0))
    counts = []
    for _ in range(4 * 24):
        world.live(sizes_at(DAILY, 0), 60 * MINUTES)
        counts.append(len(world.serving))
    assert (counts[23], counts[47], counts[71], counts[95]) == (9, 8, 7, 7)


def test_days_when_capacities_differ_then_instances_follow_the_load_by_their_own_and_no_tenant_moves_twice() -> None:
    bases = {("local", f"team-{number}"): 1 + number * 7 % 15 for number in range(500)}
    unequal = with_capacities(pool_fleet(4, replace(POOL, capacity=1000)), [500, 500, 1000, 2000])
    world = SimulatedFleet(unequal, HOURLY)
    world.place_evenly(sizes_at(bases, 0))
    capacities = []
    for minute in range(0, 3 * 24 * 60, 10):
        sizes = sizes_at(bases, minute / 60)
        world.live(sizes, 10 * MINUTES)
        capacities.append(sum(world.fleet.instances[known].capacity for known in world.serving))
        assert capacities[-1] * TARGET >= sum(sizes.values())
        assert max(world.fullness().values()) <= 1
    assert max(world.moves.values()) == 1
    assert max(capacities) < sum(sizes_at(bases, 12).values()) / TARGET + 2000
    assert capacities[-1] < max(capacities)


def test_days_when_tenants_of_no_pool_are_busy_by_turns_then_instances_are_relieved_and_nobody_comes_back() -> None:
    bases = {("local", f"team-{number}"): 1 + number % 9 for number in range(300)}
    fleet = replace(with_capacities(pool_fleet(4), [500, 500, 1000, 1500]), pools={})
    world = SimulatedFleet(fleet)
    world.place_evenly(bases)
    here = {name: each.engine_instance_id for name, each in world.fleet.tenants.items()}
    overloaded: Counter[str] = Counter()
    for minute in range(0, 3 * 24 * 60, 5):
        sizes = {
            name: diurnal(base * 2, minute / 60 + (12 if here[name] in SIX[2:] else 0)) for name, base in bases.items()
        }
        world.live(sizes, 5 * MINUTES)
        for known, share in world.fullness().items():
            overloaded[known] = overloaded[known] + 1 if share > OVERLOAD else 0
            assert overloaded[known] * 5 * MINUTES <= Patience().overload + 10 * MINUTES
    assert max(world.moves.values()) == 1


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


@settings(max_examples=in_proportion(60))
@given(loads=st.lists(st.lists(st.integers(0, 900), min_size=8, max_size=8), min_size=2, max_size=12))
def test_instances_when_in_no_pool_and_their_load_is_any_then_none_is_added_and_no_tenant_moves_twice(
    loads: list[list[int]],
) -> None:
    world = SimulatedFleet(replace(with_capacities(pool_fleet(3), [1000, 1500, 2000]), pools={}))
    world.place_evenly({("local", f"team-{number}"): size for number, size in enumerate(loads[0])})
    for sizes in loads:
        for _ in range(4):
            world.live({("local", f"team-{number}"): size for number, size in enumerate(sizes)}, 25 * MINUTES)
    assert len(world.serving) == 3
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
