"""What operators are told of an order goes to their terminals, and holds what agents have said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from services.cli.fleet import engines, fleet_orders
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.given import at

URL = "postgresql://gitops_owner@localhost/gitops?sslmode=disable"
ONE = EngineInstanceRow("one", "argocd-1", "argocd", "north", "", "shared", "", "general", 7, "accepting", at(1), at(2))
FLEET = loaded_fleet(
    {"north": EngineClusterRow("north", "", at(0), "active", at(0))},
    {"one": ONE, "two": replace(ONE, id="two", namespace="argocd-2")},
    {},
)
SAID = "engine instance two is down: \x1b]0;title\x07\x1b[2J\x9bpods"
READABLE = "engine instance two is down: ]0;title[2Jpods"
"""Without the characters that terminals obey."""


@pytest.fixture(autouse=True)
def _order_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: FLEET)
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda *_: None)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_refusal_when_it_holds_what_an_agent_has_said_then_no_control_character_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("refused", SAID))
    given = CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(engines.app, ["drain", "one", "-o", output])
    assert (given.exit_code, given.stderr) == (1, f"one: refused, {READABLE}\n")
    assert not {"\x1b", "\x07", "\x9b"} & set(given.output)
    if output == "json":
        assert json.loads(given.stdout) == {"outcome": "refused", "message": SAID}


def test_answer_when_it_holds_what_an_agent_has_said_then_no_control_character_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", SAID))
    given = CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(engines.app, ["drain", "one"])
    assert (given.exit_code, given.stdout) == (0, f"one: accepted, {READABLE}\n")
