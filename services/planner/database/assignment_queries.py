"""Reads what operators have assigned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg import Connection

from services.planner.database.columns import names
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin, WorkspaceAssignment

ASSIGNMENTS = f"SELECT {names(WorkspaceAssignment)} FROM workspace_assignments"
PINS = f"SELECT {names(TenantPin)} FROM tenant_pins"


def load_rules(connection: Connection[Any]) -> PlacementRules:
    """All of it."""
    return rules_of(connection.execute(ASSIGNMENTS).fetchall(), connection.execute(PINS).fetchall())


def rules_of(assignments: Iterable[Sequence[Any]], pins: Iterable[Sequence[Any]]) -> PlacementRules:
    """Of rows of both tables, each with the columns of its class."""
    assigned = (WorkspaceAssignment(*row) for row in assignments)
    pinned = (TenantPin(*row) for row in pins)
    return PlacementRules({each.workspace: each for each in assigned}, {each.tenant: each for each in pinned})
