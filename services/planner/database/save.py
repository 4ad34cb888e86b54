"""Writes a plan's changes and the batch's offsets. Called by the session; the caller commits.

One statement per table, its rows as one JSON text, and one message for all of them. What is equal already is not
written again: it would be streamed again.

The statements themselves are in ``writes``. Their order here is the order of the write-ahead log, so that consumers
see a tenant's projects before the deployments that need them (rows come sorted by wave). Columns are always written in
full, also those that keep their value: of a long value that an UPDATE does not set, the log holds only a reference,
and Debezium a placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from psycopg import ClientCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus

from services.common.errors import Poison, Retry
from services.common.telemetry.metrics import NAME_COLLISIONS, ROWS_WRITTEN
from services.planner.database.columns import document, recordset
from services.planner.database.tenant_clusters import CLUSTERS_OF_MOVED, CLUSTERS_OF_TENANTS
from services.planner.database.writes import (
    audit,
    compiled,
    consumption,
    fleet,
    fleet_progress,
    instance_reports,
    tenants,
)
from services.planner.domain.changes import Changes
from services.planner.rows.compiled import EngineRow

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of one partition that a batch has taken up."""

    topic: str
    partition: int
    expected: int
    """Where the database says that the effects so far end."""
    next: int
    """Where they end with this batch."""


FENCE = f"""
UPDATE consumer_offsets AS stored
   SET next_offset = taken.next
  FROM {recordset(Span, "taken")}
 WHERE (stored.topic, stored.partition, stored.next_offset) = (taken.topic, taken.partition, taken.expected)
   AND stored.owner = $2
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: which rows of the changes it writes."""

    field: str
    """Of the changes."""
    table: str
    statement: str
    writes_all: bool = False
    """It is Poison if the database has not written every row: the id of one is another tenant's."""


STATEMENTS = (
    # What is referred to comes before what refers to it; what goes, goes before what comes under the same key.
    Statement("unparked", "parked_tenants", consumption.UNPARKED),
    Statement("parked", "parked_tenants", consumption.PARKED),
    Statement("parked_events", "parked_events", consumption.PARKED_EVENTS),
    Statement("engine_clusters", "engine_clusters", fleet.ENGINE_CLUSTERS),
    Statement("engine_instances", "engine_instances", fleet.ENGINE_INSTANCES),
    Statement("assignments_gone", "workspace_assignments", fleet.ASSIGNMENTS_GONE),
    Statement("assignments", "workspace_assignments", fleet.ASSIGNMENTS),
    Statement("pins_gone", "tenant_pins", fleet.PINS_GONE),
    Statement("pins", "tenant_pins", fleet.PINS),
    Statement("engine_pools_gone", "engine_pools", fleet.ENGINE_POOLS_GONE),
    Statement("engine_pools", "engine_pools", fleet.ENGINE_POOLS),
    Statement("engine_overloads_gone", "engine_overloads", fleet.ENGINE_OVERLOADS_GONE),
    Statement("engine_overloads", "engine_overloads", fleet.ENGINE_OVERLOADS),
    Statement("engine_installations", "engine_installations", instance_reports.INSTALLATIONS),
    Statement("engine_health", "engine_health", instance_reports.ENGINE_HEALTH),
    Statement("engine_health", "engine_instances", instance_reports.HEALTH_OF_INSTANCES),
    Statement("remediations", "remediations", fleet_progress.REMEDIATIONS),
    Statement("remedy_reports", "remediations", fleet_progress.REMEDY_REPORTS),
    Statement("fleet_orders", "fleet_orders", audit.FLEET_ORDERS),
    Statement("moves_ordered", "moves", fleet_progress.MOVES_ORDERED),
    Statement("moves", "moves", fleet_progress.MOVES),
    Statement("rollouts", "rollouts", fleet_progress.ROLLOUTS),
    Statement("engine_samples", "engine_samples", instance_reports.ENGINE_SAMPLES),
    Statement("tenants_replaced", "workspace_statuses", tenants.REPLACED),
    Statement("observed_gone", "observed_states", tenants.OBSERVED_GONE),
    Statement("tenants", "tenants", tenants.TENANTS),
    Statement("tenants", "tenants", tenants.PLACED_ON_CLOSED),
    Statement("tenants", "tenant_clusters", CLUSTERS_OF_TENANTS),
    Statement("moves", "tenant_clusters", CLUSTERS_OF_MOVED),
    Statement("deployments", "deployments", tenants.DEPLOYMENTS, writes_all=True),
    Statement("sightings", "deployments", tenants.SIGHTINGS),
    Statement("plain_resources", "resources", tenants.RESOURCES, writes_all=True),
    Statement("plain_resource_sightings", "resources", tenants.RESOURCE_SIGHTINGS),
    Statement("checks", "checks", tenants.CHECKS),
    Statement("sync_runs", "sync_runs", tenants.SYNC_RUNS),
    Statement("observed", "observed_states", tenants.OBSERVED),
    Statement("forced_deletions", "forced_deletions", tenants.FORCED_DELETIONS),
    Statement("forced_deletions_gone", "forced_deletions", tenants.FORCED_DELETIONS_GONE),
    Statement("audited_changes", "audit_records", audit.AUDIT_DISPLACED),
    Statement("audit_records", "audit_records", audit.AUDIT_RECORDS),
    Statement("audited_changes", "audit_records", audit.AUDIT_RESTORED),
    Statement("audit_outcomes", "audit_records", audit.AUDIT_OUTCOMES),
    Statement("engine", "engine_resources", compiled.ENGINE),
    Statement("parts", "deployments", tenants.PART_ON_CLOSED),
    Statement("engine_absent", "engine_resources", compiled.ENGINE_ABSENT),
    Statement("engine_departing", "engine_resources", compiled.ENGINE),
    Statement("engine_gone", "engine_resources", compiled.ENGINE_GONE),
    Statement("workspace", "workspace_statuses", compiled.WORKSPACE),
    Statement("workspace_gone", "workspace_statuses", compiled.WORKSPACE_GONE),
    Statement("child_objects_gone", "workspace_objects", compiled.CHILD_OBJECTS_GONE),
    Statement("child_objects", "workspace_objects", compiled.CHILD_OBJECTS),
    Statement("pending_claims_gone", "pending_claims", compiled.PENDING_CLAIMS_GONE),
    Statement("pending_claims", "pending_claims", compiled.PENDING_CLAIMS),
    Statement("deployments_dormant", "deployments", tenants.DEPLOYMENTS_DORMANT),
    Statement("plain_resources_dormant", "resources", tenants.RESOURCES_DORMANT),
    Statement("plain_resources_gone", "resources", tenants.RESOURCES_GONE),
    Statement("deployments_gone", "deployments", tenants.DEPLOYMENTS_GONE),
    Statement("tenants_gone", "tenants", tenants.TENANTS_GONE),
    Statement("sweeps_done", "refused_sweeps", consumption.SWEEPS_DONE),
    Statement("refused_sweeps", "refused_sweeps", consumption.REFUSED_SWEEPS),
    Statement("sweep_parts_done", "sweep_parts", consumption.SWEEP_PARTS_DONE),
    Statement("sweep_parts", "sweep_parts", consumption.SWEEP_PARTS),
    Statement("lists_completed", "complete_lists", consumption.COMPLETE_LISTS),
    Statement("kept_orphans_gone", "kept_orphans", instance_reports.KEPT_ORPHANS_GONE),
    Statement("kept_orphans", "kept_orphans", instance_reports.KEPT_ORPHANS),
)


class Fenced(Exception):
    """Another planner has gone on from these offsets: this process no longer owns the partitions."""


def prepare(connection: Connection[Any]) -> None:
    """Have the statements planned, once for the connection."""
    statements = [f"PREPARE fence AS {FENCE}"]
    statements += [f"PREPARE save_{number} AS {each.statement}" for number, each in enumerate(STATEMENTS)]
    connection.execute("; ".join(statements))


def save(connection: Connection[Any], changes: Changes, spans: Sequence[Span], owner: UUID) -> bool:
    """Send everything at once, as one message of a transaction; returns whether every object's row was written.

    Raises Fenced if the offsets are not the expected ones, or somebody else has taken up their partitions since; Retry
    if an instance that tenants were placed on was retired or dedicated meanwhile, or a move that cannot go back was
    cancelled.

    1. The fence moves the offsets, if they are where this process believes them to be, and still its own.
    2. The rows follow. A crash here leaves nothing: the transaction is never committed, the batch is read again.
    3. The caller commits. A crash after it leaves effects and offsets, and the next process goes on behind them.
    4. Kafka gets the offsets, as a hint. A crash before it leaves a hint that is too old, which nobody reads.
    """
    needed = {number: rows for number, each in enumerate(STATEMENTS) if (rows := getattr(changes, each.field))}
    fence, *counts = _execute(connection, (document(spans), owner), needed)
    if fence != len(spans):
        raise Fenced(f"{len(spans) - fence} partitions have moved on, or are another planner's by now")
    complete = True
    for (number, rows), count in zip(needed.items(), counts, strict=True):
        statement, missing = STATEMENTS[number], len(rows) - count
        if count and statement.statement in (tenants.PLACED_ON_CLOSED, tenants.PART_ON_CLOSED):
            raise Retry(
                f"{count} {statement.table} were placed on engine instances that are retired or another workspace's by "
                "now"
            )
        if missing and statement.statement is fleet_progress.MOVES:
            raise Retry(f"{missing} moves were cancelled meanwhile")
        ROWS_WRITTEN.labels(statement.table).inc(count)
        if missing and statement.writes_all:
            raise Poison(f"{missing} rows of {statement.table} have the id of another tenant's")
        if missing and statement.statement is compiled.ENGINE:
            complete = False
            _tell_collisions(connection, rows)
    return complete


def _execute(connection: Connection[Any], fence: tuple[str, UUID], needed: Mapping[int, Sequence[Any]]) -> list[int]:
    """How many rows the fence and each of the statements has written."""
    is_begun = connection.info.transaction_status == TransactionStatus.INTRANS
    statements = [*(() if is_begun else ("BEGIN",)), "EXECUTE fence(%s, %s)"]
    statements += [f"EXECUTE save_{number}(%s)" for number in needed]
    cursor = ClientCursor(connection)
    cursor.execute("; ".join(statements), (*fence, *map(document, needed.values())))
    counts = [cursor.rowcount]
    while cursor.nextset():
        counts.append(cursor.rowcount)
    return counts if is_begun else counts[1:]


def _tell_collisions(connection: Connection[Any], rows: Sequence[EngineRow]) -> None:
    """Some of ``rows`` were not written: they were equal already, or another tenant has their name. Tell the latter."""
    for kind, namespace, name, *owners in RawCursor(connection).execute(compiled.COLLISIONS, (document(rows),)):
        NAME_COLLISIONS.labels(kind).inc()
        refused, owner = "/".join(owners[:2]), "/".join(owners[2:])
        log.warning(
            "the name is another tenant's", kind=kind, namespace=namespace, name=name, refused=refused, owner=owner
        )
