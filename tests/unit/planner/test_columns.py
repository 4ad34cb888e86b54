"""Statements and rows agree because the ones are made from the others; so the rows have to agree with the tables."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from sqlalchemy import Table

from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.rows import Check, Resource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database import tables
from services.planner.database.columns import SQL_TYPES, arrays, names, upsert, values, width
from services.planner.domain.changes import Sighting
from services.planner.rows import (
    EngineAbsence,
    EngineRow,
    Operation,
    OperationMoved,
    ParkedEvent,
    ParkedTenant,
    StoredStatus,
    Tenant,
    WorkspaceRow,
)

ROWS: list[tuple[type[Any], Table]] = [
    (Tenant, tables.tenants),
    (Deployment, tables.deployments),
    (Observed, tables.observed_states),
    (Resource, tables.resources),
    (Check, tables.checks),
    (SyncRun, tables.sync_runs),
    (Operation, tables.operations),
    (EngineRow, tables.engine_resources),
    (WorkspaceRow, tables.workspace_resources),
    (ParkedTenant, tables.parked_tenants),
]
PARTS: list[tuple[type[Any], Table]] = [
    (Sighting, tables.deployments),
    (Sighting, tables.resources),
    (EngineAbsence, tables.engine_resources),
    (OperationMoved, tables.operations),
    (ParkedEvent, tables.parked_events),
    (StoredStatus, tables.workspace_resources),
]
STAMPS = {"created_at", "updated_at", "dormant"}
"""Written by the statements themselves."""


@pytest.mark.parametrize(("row", "table"), ROWS, ids=lambda known: getattr(known, "__name__", ""))
def test_row_when_compared_with_its_table_then_it_has_all_its_columns(row: type[Any], table: Table) -> None:
    assert {field.name for field in fields(row)} | STAMPS == {column.name for column in table.columns} | STAMPS


@pytest.mark.parametrize(("row", "table"), PARTS, ids=lambda known: getattr(known, "__name__", ""))
def test_part_of_a_row_when_compared_with_its_table_then_it_has_such_columns(row: type[Any], table: Table) -> None:
    assert {field.name for field in fields(row)} <= {column.name for column in table.columns}


@pytest.mark.parametrize(("row", "table"), [*ROWS, *PARTS], ids=lambda known: getattr(known, "__name__", ""))
def test_array_when_made_of_a_field_then_its_type_is_as_wide_as_the_column(row: type[Any], table: Table) -> None:
    kinds = {name: text.partition("::")[2].removesuffix("[]") for name, text in zip(*_parameters(row), strict=True)}
    python = {sql: python for python, sql in SQL_TYPES.items()}
    assert {name: python[kind] for name, kind in kinds.items()} == {
        name: table.columns[name].type.python_type for name in kinds
    }


def _parameters(row: type[Any]) -> tuple[list[str], list[str]]:
    return names(row).split(", "), arrays(row).split(", ")


def test_columns_when_read_or_written_then_they_have_the_order_of_the_fields() -> None:
    seen = Sighting(*"abc")  # type: ignore[arg-type]
    assert names(Sighting, "s") == "s.id, s.resource_version, s.epoch"
    assert arrays(Sighting) == "%b::uuid[], %b::text[], %b::int8[]"
    assert (values([seen, seen]), width(Sighting)) == ([["a", "a"], ["b", "b"], ["c", "c"]], 3)


def test_upsert_when_some_columns_are_kept_then_it_sets_all_others() -> None:
    statement = upsert(
        tables.deployments, Sighting, kept=["epoch"], stamps={"dormant": "false"}, only="known.epoch > 1"
    )
    assert statement == (
        "INSERT INTO deployments AS known (id, resource_version, epoch, dormant) "
        "SELECT *, false FROM unnest(%b::uuid[], %b::text[], %b::int8[]) "
        "ON CONFLICT (id) DO UPDATE "
        "SET resource_version = EXCLUDED.resource_version, dormant = EXCLUDED.dormant "
        "WHERE known.epoch > 1"
    )
