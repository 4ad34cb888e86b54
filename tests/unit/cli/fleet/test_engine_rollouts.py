"""What operators type about rollouts, and what they are shown."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from services.cli.fleet import engine_rollouts, engines, fleet_orders
from services.common.messages import AbortRollout, FleetOrder, MoveTenant, PauseRollout, ResumeRollout, StartRollout
from services.planner.domain.fleet.loaded_parts import LoadedTenants, UnloadedRows
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from tests.unit.planner.fleet.rolled import START, Rolled
from tests.unit.planner.given import at

URL = "postgresql://gitops_owner@localhost/gitops?sslmode=disable"
ROLLED = Rolled.of({"canary": (1, 1), "general": (2, 1)}, 30)


def show_fleet(monkeypatch: pytest.MonkeyPatch, shown: Rolled) -> None:
    """As the database shows it: an order is decided without tenants, which are read of instances."""

    def load_tenants_on(_: None, instances: Collection[str]) -> LoadedTenants:
        return LoadedTenants(shown.fleet.tenants.on(instances), instances=frozenset(instances))

    decided_on = replace(shown.fleet, tenants=LoadedTenants(), load=UnloadedRows("loads"))
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: decided_on)
    monkeypatch.setattr(engine_rollouts, "connected", lambda _: nullcontext())
    monkeypatch.setattr(engine_rollouts, "load_tenants_on", load_tenants_on)


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[FleetOrder]:
    """Orders that were sent; the database shows a fleet that no version is rolled through, and all is accepted."""
    orders: list[FleetOrder] = []
    show_fleet(monkeypatch, ROLLED)
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda _, order, __: orders.append(order))
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", ""))
    return orders


def typed(*arguments: str) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(engines.app, ["rollout", *arguments])


TYPED: dict[str, tuple[tuple[str, ...], Any]] = {
    "all rings": (("start", "3.2.11"), StartRollout("3.2.11", "", (), 3600, is_security=False)),
    "some rings": (
        ("start", "3.2.11", "--rings", "canary, general", "--soak", "90s", "--security"),
        StartRollout("3.2.11", "", ("canary", "general"), 90, is_security=True),
    ),
    "a profile": (
        ("start", "3.2.11", "--profile", "fast", "--soak", "PT30M"),
        StartRollout("3.2.11", "fast", (), 1800, is_security=False),
    ),
    "a soak of minutes": (("start", "3", "--soak", "5m"), StartRollout("3", "", (), 300, is_security=False)),
    "pause": (("pause",), PauseRollout()),
    "resume": (("resume",), ResumeRollout()),
    "abort": (("abort",), AbortRollout()),
}


@pytest.mark.parametrize(("arguments", "order"), TYPED.values(), ids=TYPED)
def test_command_when_typed_then_it_is_this_order(
    sent: list[FleetOrder], arguments: tuple[str, ...], order: object
) -> None:
    assert typed(*arguments).stdout == "rollout: accepted\n"
    assert [each.order for each in sent] == [order]


@pytest.mark.parametrize("soak", ["", "h", "1.5h", "1x", "soon", "9" * 30 + "h"])
def test_soak_when_it_is_no_duration_then_it_is_refused_before_anything_is_sent(
    sent: list[FleetOrder], soak: str
) -> None:
    result = typed("start", "3.2.11", "--soak", soak)
    assert (result.exit_code, sent) == (2, [])
    assert "such as 1h" in result.stderr


def test_rollout_when_only_tried_then_each_ring_is_shown_with_how_many_move_at_each_stage(
    sent: list[FleetOrder],
) -> None:
    lines = typed("start", "3.2.11", "--dry-run").stdout.splitlines()
    assert lines[1].split() == ["canary", "canary-old-0", "canary-new-0", "30", "2,", "3,", "30"]
    assert lines[2].split() == [
        "general", "general-old-0,", "general-old-1", "general-new-0", "60", "2,", "6,", "60",
    ]  # fmt: skip
    assert lines[3:] == ["", "rollout: would be accepted, rings canary, general, each stage soaks 1:00:00"]
    assert sent == []


def test_rollout_when_a_program_tries_it_then_it_reads_the_decision_and_each_ring(sent: list[FleetOrder]) -> None:
    plan = json.loads(typed("start", "3.2.11", "--dry-run", "-o", "json").stdout)
    assert (plan["outcome"], plan["message"]) == ("accepted", "rings canary, general, each stage soaks 1:00:00")
    assert [each["ring"] for each in plan["rings"]] == ["canary", "general"]
    assert plan["rings"][1] == {
        "ring": "general",
        "oldInstances": ["general-old-0", "general-old-1"],
        "newInstances": ["general-new-0"],
        "tenants": 60,
        "stages": [2, 6, 60],
    }
    assert yaml.safe_load(typed("start", "3.2.11", "--dry-run", "-o", "yaml").stdout) == plan
    assert sent == []


def planned(monkeypatch: pytest.MonkeyPatch, shown: Rolled) -> dict[str, Any]:
    """What a dry run shows of the only ring."""
    show_fleet(monkeypatch, shown)
    (ring,) = json.loads(typed("start", "3.2.11", "--dry-run", "-o", "json").stdout)["rings"]
    found: dict[str, Any] = ring
    return found


def test_rollout_when_only_tried_and_tenants_are_on_their_way_then_each_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Rolled.of({"general": (1, 1)}, 30)
    for number in range(1, 11):
        shown.look(MoveTenant("local", f"team-{number}", "general-new-0"))
    assert shown.fleet.holding("general-new-0").tenants == 10
    ring = planned(monkeypatch, shown)
    assert (ring["tenants"], ring["stages"]) == (30, [2, 3, 30])


def test_rollout_when_only_tried_and_tenants_are_on_the_new_instance_then_no_stage_counts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Rolled.of({"general": (1, 1)}, 30)
    for number in range(1, 11):
        name = ("local", f"team-{number}")
        shown.tenants[name] = replace(shown.tenants[name], engine_instance_id="general-new-0")
    ring = planned(monkeypatch, shown)
    assert (ring["tenants"], ring["stages"]) == (30, [2, 20])


def test_rollout_when_a_program_tries_it_and_a_rule_is_broken_then_it_reads_that_and_it_is_on_stderr_too() -> None:
    result = typed("start", "1.0.0", "--dry-run", "-o", "json")
    plan = json.loads(result.stdout)
    assert (result.exit_code, plan["outcome"], plan["rings"]) == (1, "refused", [])
    assert plan["message"] in result.stderr


def test_rollout_when_only_tried_and_a_rule_is_broken_then_that_is_told(sent: list[FleetOrder]) -> None:
    result = typed("start", "1.0.0", "--dry-run")
    assert (result.exit_code, sent) == (1, [])
    assert "would be refused, '1.0.0' is no version of argocd" in result.stderr


def rolled(**changes: Any) -> Rollout:
    (rollout,) = Rolled.of({"general": (1, 1)}, 3).look(START).rollouts
    return replace(rollout, **changes)


def shown(monkeypatch: pytest.MonkeyPatch, *found: Rollout | None) -> None:
    looks = iter(found)
    monkeypatch.setattr(engine_rollouts, "_newest", lambda *_: next(looks))


def test_status_when_nothing_was_ordered_then_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(monkeypatch, None)
    assert typed("status").stdout == "no rollout has been ordered\n"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "running"),
        ({"is_paused": True}, "paused"),
        ({"step": "reverting"}, "reverting"),
        ({"step": "failed"}, "failed"),
        ({"step": "done"}, "done"),
    ],
)
def test_status_when_asked_for_then_it_says_in_a_word_how_it_is(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], state: str
) -> None:
    shown(monkeypatch, rolled(**changes))
    (row,) = json.loads(typed("status", "-o", "json").stdout)
    assert row["state"] == state


def test_status_when_watched_then_it_is_shown_until_the_rollout_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_rollouts, "LOOK_EVERY_SECONDS", 0)
    over = rolled(step="failed", reason="at 1 %: too many")
    shown(monkeypatch, rolled(), over)
    told = typed("status", "--watch")
    assert told.exit_code == 0
    assert told.stdout.index("running") < told.stdout.index("at 1 %: too many")


def test_status_when_watched_by_a_program_then_each_change_is_a_line_until_the_rollout_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_rollouts, "LOOK_EVERY_SECONDS", 0)
    shown(monkeypatch, rolled(), rolled(), rolled(step="done"))
    told = typed("status", "--watch", "-o", "json")
    assert told.exit_code == 0
    assert [json.loads(line)["state"] for line in told.stdout.splitlines()] == ["running", "done"]
