"""Pools as operators order and see them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from services.cli.fleet import engine_pools, engines, fleet_orders
from services.common.messages import FleetOrder, RemoveEnginePool, SetEnginePool
from services.planner.domain.fleet.fleet import Fleet
from tests.unit.planner.fleet.simulated_fleet import POOL, pool_fleet
from tests.unit.planner.fleet.test_scaling import FIRST, loaded
from tests.unit.planner.given import at

URL = "postgresql://gitops_owner@localhost/gitops?sslmode=disable"
COLUMNS = ("cluster", "ring", "instances", "applications", "maximum", "leaving", "message")
WITHOUT = replace(pool_fleet(1), pools={})


def typed(*arguments: str) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(engines.app, ["pool", *arguments])


def showing(monkeypatch: pytest.MonkeyPatch, shown: Fleet) -> None:
    for module in (engine_pools, fleet_orders):
        monkeypatch.setattr(module, "fleet", lambda *_: shown)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[FleetOrder]:
    """Orders, which are all accepted at once."""
    given: list[FleetOrder] = []
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda _, order, __: given.append(order))
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", ""))
    return given


def test_pools_when_listed_then_each_is_shown_with_what_it_carries_and_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = replace(POOL, leaving=FIRST, message="why")
    showing(monkeypatch, loaded({FIRST: (3, 4)}, pool))
    (row,) = json.loads(typed("list", "-o", "json").stdout)
    assert [row[name] for name in COLUMNS] == ["north", "general", 1, 7, 20, FIRST, "why"]
    showing(monkeypatch, WITHOUT)
    assert "there is no pool" in typed("list").output


def test_pool_when_ordered_then_all_of_it_is_sent(sent: list[FleetOrder]) -> None:
    assert typed("set", "--cluster", "north", "--max", "9", "--version", "3.2.11").stdout == "north/general: accepted\n"
    assert typed("remove", "--cluster", "north").stdout == "north/general: accepted\n"
    assert [order.order for order in sent] == [
        SetEnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", ""),
        RemoveEnginePool("north", "general"),
    ]


def test_pool_when_only_tried_then_its_rules_answer_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, sent: list[FleetOrder]
) -> None:
    showing(monkeypatch, WITHOUT)
    tried = typed("set", "--cluster", "north", "--min", "3", "--max", "2", "--version", "3.2.11", "--dry-run")
    assert (tried.exit_code, sent) == (1, [])
    assert "at least --min and at most --max instances" in tried.stderr


@pytest.mark.parametrize("option", ["--min", "--max", "--spare", "--capacity"])
@pytest.mark.parametrize("number", ["-1", "1" + 20 * "0"])
def test_pool_when_a_number_is_out_of_bounds_then_its_option_is_named_and_nothing_is_sent(
    sent: list[FleetOrder], option: str, number: str
) -> None:
    tried = typed("set", "--cluster", "north", "--max", "9", "--version", "3.2.11", option, number)
    assert (tried.exit_code, sent) == (2, [])
    assert f"'{option}'" in tried.stderr
