"""The order to give up an engine instance that nobody will ever reach again: what it asks for, and what it changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from services.common.messages import RetireEngineInstance
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import Move
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.unit.planner.fleet.loaded_fleet import with_tenants
from tests.unit.planner.fleet.test_fleet_orders import INSTANCE, decided, fleet, outcome
from tests.unit.planner.given import at

LOST = RetireEngineInstance("one", is_lost=True)
TWO = replace(INSTANCE, id="two", namespace="argocd-2")
SILENT = InstanceHealth("one", 0, "Unknown", "AgentSilent", "nothing", "3.2.11", None, at(500), at(400), None)
HEARD = replace(SILENT, health="Healthy", reason="")
TENANT = UUID(int=1)
FENCED = Move(
    id=UUID(int=7), tenant_id=TENANT, workspace="local", namespace="web", partition=0, source="one", target="two",
    step="withdrawing", is_cancelled=False, reported="{}", message="", actor="remediation", ordered_at=at(2),
    step_since=at(3), due_at=None, path="fenced",
)  # fmt: skip


def lost(on: str = "two", move: Move | None = FENCED, **more: Any) -> Fleet:
    """Instance "one" is silent, still has objects, and its only tenant is ``on`` an instance by its move."""
    held = Holding(1, 1, objects=True)
    health = {"one": SILENT, "two": replace(HEARD, engine_instance_id="two")}
    tenants = {("local", "web"): TenantHere(TENANT, 0, on, 1)}
    known = replace(with_tenants(fleet(held=held), tenants), health=health)
    known = known.with_instance(TWO)
    return replace(known.with_move(move) if move is not None else known, **more)


@pytest.mark.parametrize("state", ["accepting", "full", "draining", "drained", "failed"])
def test_instance_when_it_is_lost_and_evacuated_then_it_is_retired_though_moves_and_objects_wait_for_it(
    state: Any,
) -> None:
    before = lost()
    before = before.with_instance(replace(before.instances["one"], state=state))
    changes = decided(before, LOST)
    assert outcome(changes) == ("accepted", "moves that end without it: 1")
    assert [(row.id, row.state) for row in changes.engine_instances] == [("one", "retired")]
    assert outcome(decided(before, RetireEngineInstance("one")))[0] == "refused"


@pytest.mark.parametrize("step", ["ordered", "reserved", "preparing", "pausing"])
def test_move_when_its_target_is_retired_as_lost_before_it_has_the_tenant_then_it_goes_back(step: Any) -> None:
    coming = replace(FENCED, source="two", target="one", step=step, path="whole")
    changes = decided(lost(move=coming), LOST)
    assert outcome(changes)[0] == "accepted"
    assert [(move.is_cancelled, move.message) for move in changes.moves_ordered] == [
        (True, "engine instance one is retired")
    ]


def test_instance_when_it_was_retired_as_lost_before_then_nothing_changes() -> None:
    retired = fleet(replace(INSTANCE, state="retired"))
    assert outcome(decided(retired, LOST)) == ("unchanged", "it is retired")


@pytest.mark.parametrize(
    ("added", "heard", "state", "result"),
    [
        (1, {"two": at(400)}, "accepting", "accepted"),
        (1, {"two": at(300)}, "accepting", "refused"),
        (1, {}, "accepting", "refused"),
        (400, {"two": at(400)}, "accepting", "refused"),
        (400, {}, "provisioning", "accepted"),
        (400, {}, "failed", "accepted"),
    ],
    ids=[
        "of another something is",
        "of another nothing is of late, as in a rebuild that has not come so far",
        "nothing of any",
        "it is new",
        "it is being installed",
        "it was never ready",
    ],
)
def test_instance_when_nothing_was_ever_heard_of_it_then_it_is_lost_if_planners_would_have_heard_by_now(
    added: int, heard: dict[str, datetime], state: Any, result: str
) -> None:
    health = {each: replace(HEARD, engine_instance_id=each, reported_at=reported) for each, reported in heard.items()}
    before = lost(health=health)
    before = before.with_instance(replace(before.instances["one"], state=state, created_at=at(added)))
    told = outcome(decided(before, LOST, first=500))
    assert told[0] == result
    assert ("nothing was ever heard of engine instance one" in told[1]) == (result == "refused")


OTHERS_SILENT = replace(SILENT, engine_instance_id="two")
OUT_OF_REACH = replace(SILENT, health="Down", reason="ApiFailing")


@pytest.mark.parametrize(
    ("health", "second", "result"),
    [
        ((SILENT, replace(HEARD, engine_instance_id="two")), 500, "accepted"),
        ((SILENT, replace(HEARD, engine_instance_id="two")), 600, "refused"),
        ((SILENT, OTHERS_SILENT), 600, "refused"),
        ((SILENT,), 600, "refused"),
        ((OUT_OF_REACH, OTHERS_SILENT), 500, "accepted"),
        ((OUT_OF_REACH, OTHERS_SILENT), 600, "refused"),
    ],
    ids=[
        "of another something is heard",
        "of another nothing is of late, as in a restored database that is behind its log",
        "all agents seem silent",
        "there is no other",
        "its own agent tells now that it does not reach it",
        "its own agent told so long ago",
    ],
)
def test_instance_when_its_agent_is_silent_then_it_is_lost_only_if_planners_hear_what_agents_tell_now(
    health: tuple[InstanceHealth, ...], second: int, result: str
) -> None:
    before = lost(health={each.engine_instance_id: each for each in health})
    told = outcome(decided(before, LOST, first=second))
    assert told[0] == result
    assert ("they have heard of no instance at all" in told[1]) == (result == "refused")


PINNED = PlacementRules().with_pin(TenantPin("local", "later", "one", at(1)))
REFUSED = {
    "it is healthy": (
        lost(health={"one": HEARD}),
        "is heard of: Healthy, reported at 2026-05-04T12:06:40+00:00; 'gitopsctl engines drain one' it instead",
    ),
    "it is down, and its agent reaches it": (
        lost(health={"one": replace(SILENT, health="Down", reason="ControllerNotReady")}),
        "engine instance one is heard of: Down",
    ),
    "tenants are on it": (
        lost(on="one", move=None),
        "engine instance one still has tenants: 1, 0 of them on their way to another; 'gitopsctl engines remedies'",
    ),
    "tenants are about to leave it": (
        lost(on="one", move=replace(FENCED, step="preparing", path="forced")),
        "engine instance one still has tenants: 1, 1 of them on their way to another",
    ),
    "a tenant has come to it by a move that is not over": (
        lost(on="one", move=replace(FENCED, source="two", target="one", step="adopting", path="whole")),
        "engine instance one still has tenants: 1",
    ),
    "a tenant comes to it that cannot go back": (
        lost(move=replace(FENCED, source="two", target="one", step="releasing", path="whole")),
        "tenant local/web comes to engine instance one, and cannot go back: releasing",
    ),
    "a tenant is pinned to it": (lost(rules=PINNED), "tenants are pinned to engine instance one: local/later"),
    "no other is left for a workspace": (
        lost(rules=PlacementRules().with_assignment(WorkspaceAssignment("local", "eu", "canary", at(1)))).with_instance(
            replace(INSTANCE, ring="canary")
        ),
        "workspace local is assigned to ",
    ),
}


@pytest.mark.parametrize(("before", "rule"), REFUSED.values(), ids=REFUSED)
def test_instance_when_it_cannot_be_given_up_as_lost_then_the_rule_is_named_and_nothing_changes(
    before: Fleet, rule: str
) -> None:
    changes = decided(before, LOST)
    assert outcome(changes)[0] == "refused"
    assert rule in outcome(changes)[1]
    assert changes.engine_instances == ()


def test_placement_when_an_instance_is_retired_that_rows_still_name_then_no_tenant_comes_to_it() -> None:
    two = PlacementCandidate("two", "argocd-2", accepting=True, engine="argocd")
    instances = {"one": replace(two, id="one", retired=True), "two": two}
    tenants = [Tenant(UUID(int=number), "local", f"web-{number}", 0, "") for number in range(20)]
    before = {tenant.id: "one" for tenant in tenants[:10]}
    view = PlacementView(instances, ENGINES, placements=before)
    assert {view.instance_for(tenant).id for tenant in tenants} == {"two"}
