"""A tenant that there is no engine instance for waits alone, and is placed when there is one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.kinds.shared.catalogue import PARKED, TENANT_UNPLACED
from services.planner.database import periodic_queries
from services.planner.database.save import Span
from services.planner.domain import plan as plan_module
from services.planner.domain.events import Event
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin
from services.planner.domain.ids import tenant_id
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from services.planner.rows.consumption import ParkedEvent, ParkedTenant
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import NAMESPACE, at, changed, gone, resync
from tests.unit.planner.pipeline.test_loop import TOPIC, Memory, planner_with
from tests.unit.planner.world import FLEET, World

PLACED, UNPLACED = "placed", "unplaced"
OWN = replace(FLEET[0], dedicated_to=PLACED)
SHARED = FLEET[1]
UNREADY = replace(SHARED, unready=True)
OLD = {"namespace_uid": "n-1", "namespace_created_at": 1_000}
NEW = {"namespace_uid": "n-2", "namespace_created_at": 90_000}


def of(namespace: dict[str, Any], event: Event) -> Event:
    return replace(event, message=replace(event.message, **namespace))  # type: ignore[type-var]


def names(world: World) -> set[tuple[str, str]]:
    tenants = world.tenants
    return {(tenants[each.tenant_id].workspace, each.name) for each in world.deployments.values() if each.present}


def shown(world: World) -> set[str]:
    """What the resources of the tenant without an instance say of that it is parked."""
    statuses = [row.status for key, row in world.workspace.items() if key[0] == UNPLACED]
    return {entry.message for entry in PARKED for status in statuses if entry.message in status}


@pytest.fixture
def world() -> World:
    """In which one workspace has an instance, and another has none that is ready."""
    world = World(fleet=[OWN, UNREADY])
    world.take(changed(1, workspace=UNPLACED), changed(1, "api", uid="uid-2", workspace=PLACED))
    return world


def test_batch_when_one_tenant_has_no_instance_then_the_others_are_planned_and_it_waits(world: World) -> None:
    assert names(world) == {(PLACED, "api")}
    (parked,) = world.parked.values()
    assert parked.full_name == (UNPLACED, NAMESPACE)
    assert parked.error.startswith("there is no engine instance for it in any region and ring; add one with")
    assert shown(world) == {TENANT_UNPLACED.message}


def test_tenant_when_it_has_no_instance_then_it_has_no_row_and_its_later_events_are_kept(world: World) -> None:
    world.fleet = [OWN, SHARED]
    world.take(changed(2, "more", uid="uid-3", workspace=UNPLACED), changed(2, "b", uid="uid-4", workspace=PLACED))
    assert {each.workspace for each in world.tenants.values()} == {PLACED}
    assert names(world) == {(PLACED, "api"), (PLACED, "b")}
    assert len(world.parked_events) == 2


class Place:
    """The task that places tenants, of a planner over a world."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session: Any = Memory(world=world)
        self.planner, log, _ = planner_with(self.session)
        log.partitions = [0]  # type: ignore[attr-defined]
        self.session.connection = lambda: nullcontext(None)
        self.tried = 0
        monkeypatch.setattr(periodic_queries, "unplaced_tenants", self.unplaced)
        monkeypatch.setattr(periodic_queries, "parked_events", self.kept)
        monkeypatch.setattr(periodic_queries, "events_of_parked", lambda _, tenant: world.shown_of(tenant))
        self.world, self.tasks = world, PeriodicTasks(timedelta(days=1))

    def unplaced(self, *_: Any) -> list[ParkedTenant]:
        return [each for each in self.world.parked.values() if each.tenant_id not in self.world.tenants]

    def kept(self, _: Any, tenant: UUID) -> list[ParkedEvent]:
        self.tried += 1
        return [row for row in self.world.parked_events if row.tenant_id == tenant]

    def run(self) -> None:
        self.session.fleet = self.world.view
        self.tasks._place(self.planner.periodic_planner)


def test_tenant_when_an_instance_is_ready_for_it_then_all_that_has_happened_is_planned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(world, monkeypatch)
    world.take(
        changed(2, generation=2, workspace=UNPLACED),
        changed(2, "brief", uid="uid-3", workspace=UNPLACED),
        resync(3, epoch=1),
    )
    world.take(of({"workspace": UNPLACED}, gone(4, "brief", uid="uid-3")))
    place.run()
    assert (place.tried, len(world.parked)) == (0, 1)
    world.fleet = [OWN, SHARED]
    place.run()
    assert (world.parked, world.parked_events) == ({}, [])
    assert names(world) == {(PLACED, "api"), (UNPLACED, "web")}
    assert shown(world) == set()
    (tenant,) = [each for each in world.tenants.values() if each.workspace == UNPLACED]
    assert tenant.engine_instance_id == SHARED.id


def test_tenant_when_a_rule_fails_on_it_once_there_is_an_instance_then_it_is_not_tried_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(world, monkeypatch)
    world.fleet = [OWN, SHARED]
    with monkeypatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        place.run()
        place.run()
        assert (place.tried, len(world.parked)) == (1, 1)
        world.fleet = [OWN, UNREADY]
        place.run()
        world.fleet = [OWN, SHARED]
    place.run()
    assert (place.tried, world.parked) == (2, {})


FIRST = of(OLD, changed(1, "web", uid="uid-1"))
SECOND = of(OLD, changed(2, "api", uid="uid-2"))
ANEW = of(NEW, changed(100, "web", uid="uid-3", epoch=99_000))
BATCHES = {
    "in a batch": [[FIRST, SECOND, ANEW]],
    "in batches": [[FIRST], [SECOND], [ANEW]],
    "in a later batch": [[FIRST], [SECOND, ANEW]],
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_namespace_when_it_is_made_anew_before_there_is_an_instance_then_only_the_new_one_deploys(
    batches: list[list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(fleet=[UNREADY])
    for batch in batches:
        world.take(*batch)
    assert len(world.parked) == 1
    place = Place(world, monkeypatch)
    world.fleet = [SHARED]
    place.run()
    assert world.parked == {}
    assert [each.namespace_uid for each in world.tenants.values() if not each.is_former] == ["n-2"]
    assert {row.uid for row in world.deployments.values() if row.present} == {"uid-3"}


def test_planner_when_a_tenant_has_no_instance_then_its_messages_are_acknowledged_and_upkeep_goes_on() -> None:
    planner, log, _ = planner_with(Memory(world=World(fleet=[])))
    planner.run()
    assert log.acknowledged == [Span(TOPIC, 0, 0, 1)]
    assert planner.failures.latest == ""


def test_tenant_when_it_is_pinned_to_an_instance_that_was_never_ready_then_it_waits_for_that() -> None:
    tenant = Tenant(tenant_id("team", "web"), "team", "web", 0, "")
    pins = {tenant.full_name: TenantPin("team", "web", UNREADY.id, at(1))}
    view = replace(World(fleet=[FLEET[0], UNREADY]).view, rules=PlacementRules(pins=pins))
    assert not view.has_instance_for(tenant)
    assert view.has_instance_for(replace(tenant, namespace="api"))
