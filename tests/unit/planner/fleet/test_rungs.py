"""The table of rungs is whole: whatever else knows of rungs agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

from services.common.messages import Remedy
from services.planner.domain.fleet.remediation.ladder import HELPS
from services.planner.domain.fleet.remediation.rungs import RUNGS, Executor

PAGE = Path(__file__).parents[4] / "docs" / "operations" / "engine-health.md"
EXECUTORS: dict[str, Executor] = {
    "Refresh": "agent",
    "RestartController": "agent",
    "RestartRepoServer": "agent",
    "FlushCache": "agent",
    "ReapplyConfiguration": "provisioner",
    "Cordon": "planner",
    "Evacuate": "planner",
    "Replace": "planner",
}


def test_rungs_when_orders_to_agents_may_name_a_remedy_then_the_table_has_it() -> None:
    assert {name for name, rung in RUNGS.items() if rung.executor == "agent"} == {each.value for each in Remedy}


def test_rungs_when_rows_name_them_then_names_and_executors_stay_what_they_were() -> None:
    assert {name: rung.executor for name, rung in RUNGS.items()} == EXECUTORS


def test_rungs_when_another_than_the_planner_carries_them_out_then_they_help_against_a_reason() -> None:
    helping = {rung for rungs in HELPS.values() for rung in rungs}
    assert helping == {rung for rung in RUNGS.values() if rung.executor != "planner"}


def test_page_when_the_table_has_rungs_then_operators_find_each_in_the_same_order() -> None:
    _, table = PAGE.read_text().split("| rung | what happens |")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(RUNGS)
