"""Tenants are spread evenly, and stay where they are."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import Wait
from services.planner.domain.fleet.placement.assignments import Affinity, PlacementRules, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.placement.placement import BOUND, place
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.ids import tenant_id
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import NAMESPACE, WORKSPACE, changed
from tests.unit.planner.world import NOW

FLEET = [
    PlacementCandidate(f"engine-{number}", f"argocd-{number}", accepting=True, engine=DEFAULT_ENGINE)
    for number in range(4)
]
NOTHING: dict[str, int] = {}
"""Is carried by any instance."""
TENANTS = [Tenant(tenant_id(WORKSPACE, f"team-{number}"), WORKSPACE, f"team-{number}", 0, "") for number in range(4000)]


def test_tenants_when_they_are_many_then_every_instance_has_its_share() -> None:
    shares = Counter(place(tenant, FLEET, NOTHING).id for tenant in TENANTS)
    assert all(900 < share < 1100 for share in shares.values())


def test_tenants_when_some_weigh_much_more_then_no_instance_carries_more_than_its_bound() -> None:
    load: Counter[str] = Counter()
    for number, tenant in enumerate(TENANTS):
        load[place(tenant, FLEET, load).id] += 400 if number % 100 == 0 else 2
    assert max(load.values()) / (load.total() / len(FLEET)) <= 1.25


def test_instance_when_it_carries_more_than_others_then_its_tenants_go_to_their_next_choice_and_no_others() -> None:
    heavy = {each.id: 1000 if each == FLEET[0] else 100 for each in FLEET}
    before = {tenant: place(tenant, FLEET, NOTHING) for tenant in TENANTS}
    after = {tenant: place(tenant, FLEET, heavy) for tenant in TENANTS}
    passed_over = [tenant for tenant, instance in before.items() if instance == FLEET[0]]
    assert all(after[tenant] == place(tenant, FLEET[1:], NOTHING) for tenant in passed_over)
    assert all(after[tenant] == before[tenant] for tenant in TENANTS if before[tenant] != FLEET[0])


def fleet_with(down: int, of: int = 10) -> list[PlacementCandidate]:
    return [replace(FLEET[0], id=f"engine-{number}", is_down=number < down) for number in range(of)]


def used(fleet: list[PlacementCandidate]) -> set[str]:
    return {place(tenant, fleet, NOTHING).id for tenant in TENANTS[:500]}


@pytest.mark.parametrize(("down", "of"), [(1, 10), (3, 10), (1, 2)])
def test_instance_when_it_is_down_then_new_tenants_go_elsewhere_and_those_of_others_where_they_would_have(
    down: int, of: int
) -> None:
    fleet = fleet_with(down, of)
    working = {each.id for each in fleet if not each.is_down}
    assert used(fleet) == working
    for tenant in TENANTS[:500]:
        before = place(tenant, fleet_with(0, of), NOTHING).id
        if before in working:
            assert place(tenant, fleet, NOTHING).id == before


@pytest.mark.parametrize(("down", "of"), [(4, 10), (10, 10), (2, 2), (1, 1)])
def test_instances_when_more_than_three_in_ten_are_down_then_none_is_passed_over_for_that(down: int, of: int) -> None:
    assert used(fleet_with(down, of)) == used(fleet_with(0, of))


def test_tenant_when_the_instance_dedicated_to_its_workspace_is_down_then_it_is_placed_on_no_shared_one() -> None:
    dedicated = replace(FLEET[0], dedicated_to=WORKSPACE, is_down=True)
    assert {place(tenant, [dedicated, *FLEET[1:]], NOTHING) for tenant in TENANTS[:100]} == {dedicated}


DRAINED: dict[str, Any] = {"accepting": False, "leaving": True, "drained": True}


def test_instance_when_it_is_down_and_drained_then_it_does_not_count_among_those_that_are_down() -> None:
    """Such as what a rollout that has failed leaves."""
    left = [replace(each, id=f"left-{each.id}", is_down=True, **DRAINED) for each in fleet_with(0, of=2)]
    assert used([*fleet_with(1, of=2), *left]) == {"engine-1"}
    assert used([*fleet_with(2, of=4), *left]) == used(fleet_with(0, of=4))


def test_instance_when_it_works_and_is_drained_then_it_is_none_of_those_that_are_not_down() -> None:
    spare = [replace(each, id=f"spare-{each.id}", **DRAINED) for each in fleet_with(0, of=4)]
    assert used([*fleet_with(2, of=4), *spare]) == used(fleet_with(0, of=4))


def test_tenant_when_all_instances_are_drained_then_it_comes_to_one_that_works() -> None:
    left = [replace(each, **DRAINED) for each in fleet_with(1, of=2)]
    assert used(left) == {"engine-1"}


UNUSABLE: dict[str, dict[str, Any]] = {
    "it is full": {"accepting": False},
    "it drains": {"accepting": False, "leaving": True},
    "it is cordoned and down": {"accepting": False, "is_down": True},
}


@pytest.mark.parametrize("changes", UNUSABLE.values(), ids=UNUSABLE)
def test_tenant_when_the_only_instance_of_its_workspace_takes_no_others_then_it_is_placed_on_no_shared_one(
    changes: dict[str, Any],
) -> None:
    own = replace(FLEET[0], dedicated_to=WORKSPACE, **changes)
    unready = replace(FLEET[1], dedicated_to=WORKSPACE, unready=True)
    assert {place(tenant, [own, unready, *FLEET[2:]], NOTHING) for tenant in TENANTS[:100]} == {own}


def test_tenant_when_no_instance_of_its_workspace_is_ready_yet_then_it_waits_for_that_and_those_of_others_do_not() -> (
    None
):
    fleet = [replace(FLEET[0], dedicated_to=WORKSPACE, unready=True), *FLEET[1:]]
    with pytest.raises(Wait, match=f"no engine instance that workspace {WORKSPACE} has to itself in any region"):
        place(TENANTS[0], fleet, NOTHING)
    assert place(replace(TENANTS[0], workspace="other"), fleet, NOTHING) in FLEET[1:]


def test_tenant_when_the_instance_of_its_workspace_is_elsewhere_than_it_may_be_then_it_is_placed_on_a_shared_one() -> (
    None
):
    own = replace(FLEET[0], dedicated_to=WORKSPACE, region="us")
    assert place(TENANTS[0], [own, *FLEET[1:]], NOTHING, Affinity(WORKSPACE, "")) in FLEET[1:]


def test_instance_when_it_has_three_times_the_capacity_then_it_gets_three_times_as_many_tenants() -> None:
    large = [replace(FLEET[0], capacity=3), *FLEET[1:]]
    shares = Counter(place(tenant, large, NOTHING).id for tenant in TENANTS)
    assert 1900 < shares[FLEET[0].id] < 2100


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 50_000)), min_size=1, max_size=12), st.uuids())
def test_tenant_when_instances_have_any_load_and_capacity_then_it_is_placed_within_a_bound(
    measured: list[tuple[int, int]], known: UUID
) -> None:
    instances = [replace(FLEET[0], id=str(number), capacity=capacity) for number, (capacity, _) in enumerate(measured)]
    load = {str(number): carried for number, (_, carried) in enumerate(measured)}
    chosen = place(replace(TENANTS[0], id=known), instances, load)
    share = chosen.capacity / sum(each.capacity for each in instances)
    assert load[chosen.id] + 1 <= math.ceil(BOUND * share * (sum(load.values()) + 1) + 1e-6)


REGIONS, RINGS = ("", "eu", "us"), ("canary", "early", "general")
PLACES = st.tuples(st.sampled_from(REGIONS), st.sampled_from(RINGS), st.integers(1, 10_000), st.integers(0, 500_000))


def located(places: list[tuple[str, str, int, int]]) -> tuple[list[PlacementCandidate], dict[str, int]]:
    """Instances with their loads."""
    instances = [
        replace(FLEET[0], id=str(number), region=region, ring=ring, capacity=capacity)
        for number, (region, ring, capacity, _) in enumerate(places)
    ]
    return instances, {str(number): carried for number, (*_, carried) in enumerate(places)}


@given(
    st.lists(PLACES, min_size=1, max_size=12),
    st.sampled_from((None, *REGIONS)),
    st.sampled_from(("", *RINGS)),
    st.uuids(),
)
def test_tenant_when_it_is_assigned_then_it_is_placed_there_within_the_bound_of_these_or_waits(
    places: list[tuple[str, str, int, int]], region: str | None, ring: str, known: UUID
) -> None:
    instances, load = located(places)
    affinity, tenant = Affinity(WORKSPACE, region, ring), replace(TENANTS[0], id=known)
    admitted = [each for each in instances if region in {None, each.region} and ring in {"", each.ring}]
    if not admitted:
        with pytest.raises(Wait, match="gitopsctl engines add"):
            place(tenant, instances, load, affinity)
        return
    chosen = place(tenant, instances, load, affinity)
    assert chosen in admitted
    assert chosen == place(tenant, instances[::-1], dict(reversed(load.items())), affinity)
    share = chosen.capacity / sum(each.capacity for each in admitted)
    carried = sum(load[each.id] for each in admitted)
    assert load[chosen.id] + 1 <= math.ceil(BOUND * share * (carried + 1) + 1e-6)


def test_tenant_when_its_workspace_is_assigned_then_those_of_others_go_where_they_would_have() -> None:
    fleet = [replace(each, ring="canary" if number else "general") for number, each in enumerate(FLEET)]
    rules = PlacementRules({WORKSPACE: WorkspaceAssignment(WORKSPACE, "", "general", NOW)})
    view = PlacementView({each.id: each for each in fleet}, ENGINES, rules=rules)
    assert {view.instance_for(tenant) for tenant in TENANTS[:100]} == {fleet[0]}
    others = [replace(tenant, workspace="other") for tenant in TENANTS[:100]]
    assert [view.instance_for(each) for each in others] == [place(each, fleet, NOTHING) for each in others]


CLUSTERS = [replace(each, engine_cluster=cluster) for each, cluster in zip(FLEET, "aabb", strict=True)]
"""Two instances of each of two engine clusters."""


def in_cluster_a(**changed: Any) -> list[PlacementCandidate]:
    """The fleet, with the instances of cluster a changed."""
    return [replace(each, **changed) if each.engine_cluster == "a" else each for each in CLUSTERS]


@pytest.mark.parametrize("changed", [{}, {"accepting": False}, {"is_down": True}, {"ring": "canary"}])
def test_tenants_when_their_workspace_is_in_a_cluster_then_they_are_spread_there_as_if_there_were_no_other(
    changed: dict[str, Any],
) -> None:
    fleet = in_cluster_a(**changed)
    for tenant in TENANTS[:100]:
        assert place(tenant, fleet, NOTHING, preferred={"a"}) == place(tenant, fleet[:2], NOTHING)
    assert len({place(tenant, fleet, NOTHING, preferred={"a"}) for tenant in TENANTS[:100]}) == 2
    assert len({place(tenant, fleet, NOTHING, preferred={"a", "b"}) for tenant in TENANTS[:100]}) > 1


@pytest.mark.parametrize(
    "changed", [{"dedicated_to": "other"}, {"unready": True}, {"leaving": True, "accepting": False}, {"region": "us"}]
)
def test_tenants_when_no_instance_of_their_workspaces_cluster_may_have_them_then_they_are_placed_in_another(
    changed: dict[str, Any],
) -> None:
    fleet, affinity = in_cluster_a(**changed), Affinity(WORKSPACE, "")
    for tenant in TENANTS[:100]:
        assert place(tenant, fleet, NOTHING, affinity, {"a"}) == place(tenant, fleet[2:], NOTHING)


def test_tenants_when_their_workspace_has_an_instance_to_itself_in_another_cluster_then_that_has_them() -> None:
    own = replace(CLUSTERS[3], dedicated_to=WORKSPACE)
    assert {place(tenant, [*CLUSTERS[:3], own], NOTHING, preferred={"a"}) for tenant in TENANTS[:100]} == {own}


def test_tenant_when_its_workspace_is_local_then_it_is_placed_by_its_policy_and_those_of_others_anywhere() -> None:
    fleet = PlacementView({each.id: each for each in CLUSTERS}, ENGINES)
    policy = Policy(local_workspaces={WORKSPACE: frozenset({"b"})})

    def cluster_of(workspace: str, number: int) -> str:
        new = TenantState(Tenant(UUID(int=number), workspace, NAMESPACE, 0, ""))
        placed = plan(new, [changed(1, workspace=workspace)], fleet, policy, NOW).state
        assert placed is not None
        return fleet.instances[placed.tenant.engine_instance_id].engine_cluster

    assert {cluster_of(WORKSPACE, number) for number in range(20)} == {"b"}
    assert {cluster_of("other", number) for number in range(20)} == {"a", "b"}


def test_tenant_when_it_is_pinned_before_it_comes_then_it_is_placed_there_whatever_that_carries() -> None:
    tenant = TENANTS[0]
    pinned = next(each for each in FLEET if each != place(tenant, FLEET, NOTHING))
    rules = PlacementRules(pins={tenant.full_name: TenantPin(*tenant.full_name, pinned.id, NOW)})
    full = replace(pinned, accepting=False, is_down=True)
    view = PlacementView({each.id: full if each == pinned else each for each in FLEET}, ENGINES, rules=rules)
    assert view.instance_for(tenant) == full


def test_tenant_when_its_database_was_lost_then_where_it_was_counts_before_a_pin() -> None:
    tenant, (was, pinned) = TENANTS[0], FLEET[:2]
    rules = PlacementRules(pins={tenant.full_name: TenantPin(*tenant.full_name, pinned.id, NOW)})
    view = PlacementView({each.id: each for each in FLEET}, ENGINES, {tenant.id: was.id}, rules=rules)
    assert view.instance_for(tenant) == was


def test_tenant_when_placed_again_then_it_is_on_the_same_instance_whatever_the_order() -> None:
    assert all(place(tenant, FLEET, NOTHING) == place(tenant, reversed(FLEET), NOTHING) for tenant in TENANTS[:100])


def test_instance_when_added_then_only_its_own_share_moves_and_only_to_it() -> None:
    added = PlacementCandidate("engine-new", "argocd-new", accepting=True, engine=DEFAULT_ENGINE)
    moved = [t for t in TENANTS if place(t, FLEET, NOTHING) != place(t, [*FLEET, added], NOTHING)]
    assert 600 < len(moved) < 1000
    assert {place(tenant, [*FLEET, added], NOTHING) for tenant in moved} == {added}


def test_instance_when_draining_then_no_tenant_is_placed_on_it() -> None:
    draining = [replace(FLEET[0], accepting=False), *FLEET[1:]]
    assert FLEET[0].id not in {place(tenant, draining, NOTHING).id for tenant in TENANTS}


def test_instance_when_dedicated_then_tenants_of_its_workspace_alone_are_placed_on_it_and_on_no_other() -> None:
    fleet = [replace(FLEET[0], dedicated_to="other"), replace(FLEET[1], dedicated_to=WORKSPACE), *FLEET[2:]]
    assert {place(tenant, fleet, NOTHING).id for tenant in TENANTS} == {FLEET[1].id}
    others = [replace(tenant, workspace="third") for tenant in TENANTS]
    assert {place(tenant, fleet, NOTHING).id for tenant in others} == {each.id for each in FLEET[2:]}


def test_instance_when_all_are_dedicated_to_others_then_a_tenant_waits() -> None:
    with pytest.raises(Wait, match="gitopsctl engines add"):
        place(TENANTS[0], [replace(each, dedicated_to="other") for each in FLEET], NOTHING)


def test_tenant_when_no_instance_accepts_then_it_waits_and_the_remedy_is_named() -> None:
    with pytest.raises(Wait, match="gitopsctl engines add"):
        place(TENANTS[0], [], NOTHING)


def test_instance_when_this_build_does_not_know_its_engine_then_no_tenant_is_placed_on_it_and_its_namespace_stays() -> (
    None
):
    tenant = TenantState(Tenant(tenant_id(WORKSPACE, NAMESPACE), WORKSPACE, NAMESPACE, 0, ""))
    foreign = [replace(instance, engine="of a newer build") for instance in FLEET]
    chosen = place(tenant.tenant, FLEET, NOTHING)
    fleet = PlacementView({**{each.id: each for each in FLEET}, chosen.id: foreign[FLEET.index(chosen)]}, ENGINES)
    placed = plan(tenant, [changed(1)], fleet, Policy(), NOW).state
    assert placed is not None
    assert placed.tenant.engine_instance_id in {each.id for each in FLEET} - {chosen.id}
    assert fleet.is_engine_namespace(chosen.engine_cluster, chosen.namespace)
    with pytest.raises(Wait, match="gitopsctl engines add"):
        plan(tenant, [changed(1)], PlacementView({each.id: each for each in foreign}, ENGINES), Policy(), NOW)


def test_tenant_when_it_was_placed_before_the_database_was_lost_then_it_is_there_again_whatever_its_hash() -> None:
    tenant = TenantState(Tenant(tenant_id(WORKSPACE, NAMESPACE), WORKSPACE, NAMESPACE, 0, ""))
    elsewhere = next(each for each in FLEET if each != place(tenant.tenant, FLEET, NOTHING))
    draining = {each.id: replace(each, accepting=each != elsewhere) for each in FLEET}
    for known, expected in (({tenant.tenant.id: elsewhere.id}, elsewhere.id), ({tenant.tenant.id: "removed"}, None)):
        fleet = PlacementView(draining, ENGINES, known)
        placed = plan(tenant, [changed(1)], fleet, Policy(), NOW).state
        assert placed.tenant.engine_instance_id == (expected or place(tenant.tenant, draining.values(), NOTHING).id)


def test_tenant_when_it_was_placed_by_its_names_alone_then_it_is_there_again_though_its_id_is_of_its_uid() -> None:
    of_names, of_uid = tenant_id(WORKSPACE, NAMESPACE), tenant_id(WORKSPACE, NAMESPACE, "uid-1")
    tenant = Tenant(of_uid, WORKSPACE, NAMESPACE, 0, "")
    first, second = [each for each in FLEET if each != place(tenant, FLEET, NOTHING)][:2]
    instances = {each.id: each for each in FLEET}
    assert PlacementView(instances, ENGINES, {of_names: first.id}).instance_for(tenant) == first
    assert PlacementView(instances, ENGINES, {of_names: first.id, of_uid: second.id}).instance_for(tenant) == second
