"""Statements and rows agree because the ones are made from the others; so the rows have to agree with the tables."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Table

from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.columns import SQL_TYPES, columns_of, deletion, document, names, recordset, upsert
from services.planner.database.tables.audit import audit_records
from services.planner.database.tables.compiled import (
    engine_resources,
    pending_claims,
    workspace_objects,
    workspace_statuses,
)
from services.planner.database.tables.consumption import (
    complete_lists,
    parked_events,
    parked_tenants,
    refused_sweeps,
    sweep_parts,
)
from services.planner.database.tables.fleet import tenant_pins
from services.planner.database.tables.tenants import (
    checks,
    deployments,
    forced_deletions,
    observed_states,
    resources,
    sync_runs,
    tenants,
)
from services.planner.domain.changes import Sighting
from services.planner.domain.events import SweepScope
from services.planner.domain.fleet.placement.assignments import PinKey
from services.planner.rows.audit import AuditOutcome, AuditRecord
from services.planner.rows.compiled import (
    ChildRow,
    ChildRowKey,
    EngineAbsence,
    EngineKey,
    EngineRow,
    PendingClaimKey,
    PendingClaimRow,
    StoredStatus,
    WorkspaceKey,
    WorkspaceRow,
)
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, RefusedSweep, SweepPart
from services.planner.rows.tenants import Tenant

ROWS: list[tuple[type[Any], Table]] = [
    (Tenant, tenants),
    (Deployment, deployments),
    (Observed, observed_states),
    (ForcedDeletion, forced_deletions),
    (PlainResource, resources),
    (Check, checks),
    (SyncRun, sync_runs),
    (AuditRecord, audit_records),
    (EngineRow, engine_resources),
    (WorkspaceRow, workspace_statuses),
    (ChildRow, workspace_objects),
    (PendingClaimRow, pending_claims),
    (ParkedTenant, parked_tenants),
    (RefusedSweep, refused_sweeps),
    (SweepScope, complete_lists),
]
PARTS: list[tuple[type[Any], Table]] = [
    (Sighting, deployments),
    (Sighting, resources),
    (EngineAbsence, engine_resources),
    (AuditOutcome, audit_records),
    (ParkedEvent, parked_events),
    (SweepPart, sweep_parts),
    (StoredStatus, workspace_statuses),
    (EngineKey, engine_resources),
    (WorkspaceKey, workspace_statuses),
    (ChildRowKey, workspace_objects),
    (PendingClaimKey, pending_claims),
    (PinKey, tenant_pins),
]
STAMPS = {"created_at", "updated_at", "dormant", "engine_cluster"}
"""Written by the statements themselves."""


@pytest.mark.parametrize(("row", "table"), ROWS, ids=lambda known: getattr(known, "__name__", ""))
def test_row_when_compared_with_its_table_then_it_has_all_its_columns(row: type[Any], table: Table) -> None:
    assert set(columns_of(row)) | STAMPS == {column.name for column in table.columns} | STAMPS


@pytest.mark.parametrize(("row", "table"), PARTS, ids=lambda known: getattr(known, "__name__", ""))
def test_part_of_a_row_when_compared_with_its_table_then_it_has_such_columns(row: type[Any], table: Table) -> None:
    assert set(columns_of(row)) <= {column.name for column in table.columns}


@pytest.mark.parametrize(("row", "table"), [*ROWS, *PARTS], ids=lambda known: getattr(known, "__name__", ""))
def test_parameter_when_made_of_a_field_then_its_type_is_as_wide_as_the_column(row: type[Any], table: Table) -> None:
    python = {sql: python for python, sql in SQL_TYPES.items()}
    columns = recordset(row, "some").partition("some(")[2].removesuffix(")").split(", ")
    kinds = dict(column.split(" ") for column in columns)
    assert {name: python[kind] for name, kind in kinds.items()} == {
        name: table.columns[name].type.python_type for name in columns_of(row)
    }


def test_columns_when_read_or_written_then_they_have_the_order_of_the_fields() -> None:
    assert names(Sighting, "s") == "s.id, s.resource_version, s.epoch, s.dormant"
    read = "json_to_recordset($1) AS seen(id uuid, resource_version text, epoch int8, dormant bool)"
    assert recordset(Sighting, "seen") == read


def test_document_when_made_of_rows_keys_or_ids_then_it_has_their_columns_by_name() -> None:
    known = UUID(int=1)
    assert (
        document([Sighting(known, "5", 6)]) == f'[{{"id":"{known}","resource_version":"5","epoch":6,"dormant":false}}]'
    )
    shown = '[{"workspace":"w","namespace":"n","kind":"k","name":"x","uid":"u"}]'
    assert document([WorkspaceKey("w", "n", "k", "x", "u")]) == shown
    assert document([known]) == f'["{known}"]'


def test_upsert_when_some_columns_are_kept_then_it_sets_all_others() -> None:
    stamps = {"updated_at": "now()"}
    statement = upsert(
        workspace_statuses, StoredStatus, kept=["generation"], stamps=stamps, only="known.generation > 1"
    )
    assert statement == (
        "INSERT INTO workspace_statuses AS known (uid, generation, status, release_finalizer, updated_at) "
        "SELECT *, now() FROM json_to_recordset($1) AS "
        "written(uid text, generation int8, status text, release_finalizer bool) "
        "ON CONFLICT (workspace, namespace, kind, name) DO UPDATE "
        "SET uid = EXCLUDED.uid, status = EXCLUDED.status, release_finalizer = EXCLUDED.release_finalizer, "
        "updated_at = EXCLUDED.updated_at "
        "WHERE known.generation > 1"
    )


def test_deletion_when_made_then_a_row_has_to_agree_in_all_columns_of_the_key() -> None:
    assert deletion(pending_claims, PendingClaimKey) == (
        "DELETE FROM pending_claims AS known USING json_to_recordset($1) AS "
        "gone(workspace text, namespace text, name text, uid text) "
        "WHERE (known.workspace, known.namespace, known.name, known.uid) "
        "= (gone.workspace, gone.namespace, gone.name, gone.uid)"
    )
