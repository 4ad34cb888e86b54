"""Values that a CHECK of a table lists are those that the rows may have: a row with any other could not be written."""

from __future__ import annotations

import ast
from typing import Any, get_args

import pytest
from sqlalchemy import CheckConstraint, Table

from services.planner.database.tables.fleet_progress import moves, remediations, rollouts
from services.planner.domain.fleet.remediation.remediation_rows import RemediationState, RemedyOutcome
from services.planner.domain.fleet.rollouts.rollout_rows import RolloutStep
from services.planner.domain.fleet.rollouts.stages import STAGES
from services.planner.domain.fleet.rows import MovePath, MoveStep

CHECKED: list[tuple[Table, str, set[Any]]] = [
    (moves, "path", set(get_args(MovePath))),
    (moves, "step", set(get_args(MoveStep))),
    (rollouts, "step", set(get_args(RolloutStep))),
    (rollouts, "stage", {0, *STAGES}),
    (remediations, "state", set(get_args(RemediationState))),
    (remediations, "told_outcome", set(get_args(RemedyOutcome))),
]


@pytest.mark.parametrize(
    ("table", "column", "values"), CHECKED, ids=[f"{table.name}.{column}" for table, column, _ in CHECKED]
)
def test_check_when_a_row_may_have_a_value_then_it_admits_that_and_no_other(
    table: Table, column: str, values: set[Any]
) -> None:
    assert _admitted(table, column) == values


def _admitted(table: Table, column: str) -> set[Any]:
    """The values of ``column IN (…)``."""
    prefix = f"{column} IN "
    checks = [str(each.sqltext) for each in table.constraints if isinstance(each, CheckConstraint)]
    (listed,) = (check.removeprefix(prefix) for check in checks if check.startswith(prefix))
    return set(ast.literal_eval(listed))
