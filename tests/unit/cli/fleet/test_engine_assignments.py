"""What operators order of placement, and what they are shown of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from services.cli.fleet import engine_assignments, engine_clusters, fleet_orders
from services.common.errors import InvalidConfiguration
from services.common.messages import (
    AssignWorkspace,
    DedicateEngineInstance,
    DrainEngineCluster,
    FleetOrder,
    Order,
    PinTenant,
    RetireEngineCluster,
    UndrainEngineCluster,
    UnpinTenant,
)
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin, WorkspaceAssignment
from tests.unit.cli.fleet.test_engines import FLEET, ONE, sent, typed
from tests.unit.planner.given import at

__all__ = ["sent"]

SHARED = replace(ONE, id="two", engine_class="shared", dedicated_to="", ring="general")
ASSIGNED = replace(
    FLEET,
    instances={"one": ONE, "two": SHARED},
    rules=PlacementRules(
        {"other": WorkspaceAssignment("other", "eu", "", at(3))},
        {("other", "web"): TenantPin("other", "web", "two", at(4))},
    ),
)
ORDERED: dict[str, tuple[tuple[str, ...], Order]] = {
    "assign": (("assign", "team", "--region", "eu", "--ring", "early"), AssignWorkspace("team", "eu", "early")),
    "assign a ring": (("assign", "team", "--ring", "early"), AssignWorkspace("team", "", "early")),
    "unassign": (("unassign", "team"), AssignWorkspace("team", "", "")),
    "dedicate": (("dedicate", "two", "--to", "team"), DedicateEngineInstance("two", "team")),
    "share": (("dedicate", "one", "--shared"), DedicateEngineInstance("one", "")),
    "pin": (("pin", "web", "--workspace", "team"), PinTenant("team", "web", "")),
    "pin to": (("pin", "web", "--to", "two"), PinTenant("local", "web", "two")),
    "unpin": (("unpin", "web"), UnpinTenant("local", "web")),
}


@pytest.fixture(autouse=True)
def shown(sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """What the database shows, after ``sent`` has set the rest up."""
    for module in (engine_assignments, fleet_orders):
        monkeypatch.setattr(module, "fleet", lambda *_: ASSIGNED)
    return ASSIGNED


@pytest.mark.parametrize(("arguments", "order"), ORDERED.values(), ids=ORDERED)
def test_command_when_typed_then_that_is_ordered(
    sent: list[FleetOrder], arguments: tuple[str, ...], order: Order
) -> None:
    assert typed(*arguments).exit_code == 0
    assert [each.order for each in sent] == [order]


@pytest.mark.parametrize(
    ("command", "order"),
    [("drain", DrainEngineCluster), ("undrain", UndrainEngineCluster), ("retire", RetireEngineCluster)],
)
def test_cluster_when_its_state_is_typed_then_that_is_ordered(
    sent: list[FleetOrder], command: str, order: type[Order]
) -> None:
    assert typed(command, "north", app=engine_clusters.app).exit_code == 0
    assert [each.order for each in sent] == [order("north")]  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "arguments", [("assign", "team"), ("dedicate", "one"), ("dedicate", "one", "--to", "team", "--shared")]
)
def test_command_when_it_says_nothing_or_too_much_then_nothing_is_ordered(
    sent: list[FleetOrder], arguments: tuple[str, ...]
) -> None:
    assert isinstance(typed(*arguments).exception, InvalidConfiguration)
    assert sent == []


def test_order_when_only_tried_then_the_rule_is_named_and_nothing_is_sent(sent: list[FleetOrder]) -> None:
    tried = typed("assign", "team", "--region", "mars", "--dry-run")
    assert (tried.exit_code, tried.stderr) == (1, "team: would be refused, there is no region 'mars', only eu\n")
    assert sent == []


def test_assignments_when_listed_then_each_says_of_whom_it_is_and_which_instances_are_meant() -> None:
    rows = json.loads(typed("assignments", "-o", "json").stdout)
    assert [(row["kind"], row["workspace"], row["namespace"], row["instances"]) for row in rows] == [
        ("assign", "other", "", ["two"]),
        ("pin", "other", "web", ["two"]),
        ("dedicate", "team", "", ["one"]),
    ]
    assert yaml.safe_load(typed("assignments", "-o", "yaml").stdout)[0]["region"] == "eu"
    headings, first, *_ = typed("assignments").stdout.splitlines()
    assert headings.split() == ["workspace", "namespace", "region", "ring", "instances", "kind", "since"]
    assert first.split()[:6] == ["other", "-", "eu", "-", "two", "assign"]


def test_assignment_when_its_workspace_has_an_instance_to_itself_then_no_shared_one_is_meant() -> None:
    rules = PlacementRules({"team": WorkspaceAssignment("team", "eu", "", at(3))})
    assigned, _ = engine_assignments.assignment_rows(replace(ASSIGNED, rules=rules))
    assert (assigned["kind"], assigned["instances"]) == ("assign", ["one"])


def test_instance_when_listed_then_its_load_is_told_in_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.cli.fleet.engine_instances.fleet", lambda *_: replace(ASSIGNED, load={"two": 85}))
    rows = json.loads(typed("list", "-o", "json").stdout)
    assert [(row["id"], row["load"], row["queue"]) for row in rows] == [("one", 0.0, 0), ("two", 8.5, 0)]
