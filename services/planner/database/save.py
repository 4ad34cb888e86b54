"""Writes a plan's changes and the batch's offsets. Called by the store; the caller commits.

One statement per table, its rows as arrays. What is equal already is not written again: it would be streamed again.

The order of the statements is the order of the write-ahead log, so that consumers see an AppProject before the
Applications that need it (rows come sorted by wave). Columns are always written in full, also those that keep their
value: of a long value that an UPDATE does not set, the log holds only a reference, and Debezium a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import structlog
from psycopg import Connection

from services.common.errors import Poison
from services.common.telemetry.metrics import NAME_COLLISIONS, ROWS_WRITTEN
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.rows import Check, Resource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database import tables
from services.planner.database.columns import arrays, names, upsert, values
from services.planner.database.offsets import Span
from services.planner.domain.changes import Changes, Sighting
from services.planner.rows import (
    EngineAbsence,
    EngineRow,
    Operation,
    OperationMoved,
    ParkedEvent,
    ParkedTenant,
    Tenant,
    WorkspaceRow,
)

log = structlog.get_logger(__name__)

FENCE = """
UPDATE consumer_offsets AS stored
   SET next_offset = taken.next
  FROM unnest(%b::text[], %b::int4[], %b::int8[], %b::int8[]) AS taken(topic, partition, expected, next)
 WHERE (stored.topic, stored.partition, stored.next_offset) = (taken.topic, taken.partition, taken.expected)
   AND stored.owner = %b::uuid
"""

# A uid that another tenant's resource has already: the row stays that tenant's.
OWN = "known.tenant_id = EXCLUDED.tenant_id"
AWAKE = {"dormant": "false"}

TENANTS = upsert(tables.tenants, Tenant, kept=["workspace", "namespace"])
DEPLOYMENTS = upsert(tables.deployments, Deployment, kept=["tenant_id"], stamps=AWAKE, only=OWN)
RESOURCES = upsert(tables.resources, Resource, kept=["tenant_id"], stamps=AWAKE, only=OWN)
CHECKS = upsert(tables.checks, Check)
SYNC_RUNS = upsert(tables.sync_runs, SyncRun)
OBSERVED = upsert(tables.observed_states, Observed)
OPERATIONS = upsert(
    tables.operations,
    Operation,
    kept=[field.name for field in fields(Operation) if field.name not in {"state", "message"}],
    stamps={"updated_at": "now()"},
)

SIGHTINGS, RESOURCE_SIGHTINGS = (
    f"""
UPDATE {table} AS known
   SET resource_version = seen.resource_version, epoch = seen.epoch, dormant = false
  FROM unnest({arrays(Sighting)}) AS seen({names(Sighting)})
 WHERE known.id = seen.id
"""
    for table in (tables.deployments, tables.resources)
)
DEPLOYMENTS_DORMANT, RESOURCES_DORMANT = (
    f"UPDATE {table} SET dormant = true WHERE id = ANY(%b::uuid[]) AND NOT dormant"
    for table in (tables.deployments, tables.resources)
)

# Looked up one by one (OFFSET 0 is a fence to the optimizer): without statistics it believes that hardly any row is
# open, and reads all of them to find those few.
OPERATIONS_MOVED = f"""
UPDATE operations AS o
   SET state = moved.state, message = moved.message, updated_at = moved.updated_at
  FROM unnest({arrays(OperationMoved)}) AS moved({names(OperationMoved)})
 CROSS JOIN LATERAL (SELECT known.id FROM operations AS known
                      WHERE known.id = moved.id AND known.state IN ('Waiting', 'Failed')
                     OFFSET 0) AS open
 WHERE o.id = open.id
"""

# The lane in the conditions: names contain uids, which another cluster may have given out too.
ENGINE = upsert(
    tables.engine_resources,
    EngineRow,
    stamps={"updated_at": "clock_timestamp()"},
    only="(known.digest, known.desired) IS DISTINCT FROM (EXCLUDED.digest, EXCLUDED.desired)"
    " AND known.lane = EXCLUDED.lane",
)
COLLISIONS = """
SELECT known.kind, known.namespace, known.name, wanted.workspace, wanted.tenant_namespace, known.workspace,
       known.tenant_namespace
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
       AS wanted(engine_instance_id, kind, namespace, name, lane, workspace, tenant_namespace)
  JOIN engine_resources known USING (engine_instance_id, kind, namespace, name)
 WHERE known.lane <> wanted.lane
"""

# The manifest is written anew although it stays: of a long value that an UPDATE leaves alone the log holds a reference.
ENGINE_ABSENT = f"""
UPDATE engine_resources AS known
   SET desired = 'absent', manifest = known.manifest || '', trace_id = gone.trace_id, seen_at = gone.seen_at,
       updated_at = clock_timestamp()
  FROM unnest({arrays(EngineAbsence)}) AS gone({names(EngineAbsence)})
 WHERE (known.engine_instance_id, known.kind, known.namespace, known.name)
     = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
   AND known.lane = gone.lane
   AND known.desired = 'present'
"""

ENGINE_GONE = """
DELETE FROM engine_resources AS known
 USING unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
       AS gone(engine_instance_id, kind, namespace, name, lane)
 WHERE (known.engine_instance_id, known.kind, known.namespace, known.name)
     = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
   AND known.lane = gone.lane
"""

WORKSPACE = upsert(
    tables.workspace_resources,
    WorkspaceRow,
    stamps={"updated_at": "clock_timestamp()"},
    only="(known.uid, known.release_finalizer, known.digest)"
    " IS DISTINCT FROM (EXCLUDED.uid, EXCLUDED.release_finalizer, EXCLUDED.digest)",
)

WORKSPACE_GONE = """
DELETE FROM workspace_resources AS known
 USING unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS gone(workspace, namespace, kind, name)
 WHERE (known.workspace, known.namespace, known.kind, known.name)
     = (gone.workspace, gone.namespace, gone.kind, gone.name)
"""

PARKED = upsert(tables.parked_tenants, ParkedTenant, kept=["parked_at"])
PARKED_EVENTS = f"INSERT INTO parked_events ({names(ParkedEvent)}) SELECT * FROM unnest({arrays(ParkedEvent)})"
UNPARKED = "DELETE FROM parked_tenants WHERE tenant_id = ANY(%b::uuid[])"

OBSERVED_GONE = "DELETE FROM observed_states WHERE deployment_id = ANY(%b::uuid[])"
RESOURCES_GONE = "DELETE FROM resources WHERE id = ANY(%b::uuid[])"
DEPLOYMENTS_GONE = "DELETE FROM deployments WHERE id = ANY(%b::uuid[])"
# A plan does not see everything that a tenant has: its dormant rows may still be there.
TENANTS_GONE = """
DELETE FROM tenants AS t
 WHERE t.id = ANY(%b::uuid[])
   AND NOT EXISTS (SELECT FROM resources r WHERE r.tenant_id = t.id)
   AND NOT EXISTS (SELECT FROM deployments d WHERE d.tenant_id = t.id)
"""

Column = list[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement: which rows of the changes it writes."""

    table: str
    statement: str
    rows: Callable[[Changes], Sequence[Any]]
    columns: Callable[[Sequence[Any]], Sequence[Column]]
    writes_all: bool = False
    """It is Poison if the database has not written every row: the id of one is another tenant's."""


def _keys(rows: Sequence[tuple[Any, ...]]) -> list[Column]:
    return [list(column) for column in zip(*rows, strict=True)]


def _ids(rows: Sequence[Any]) -> list[Column]:
    return [list(rows)]


STEPS = (
    # What is referred to comes before what refers to it; what goes, goes before what comes under the same key.
    Step("parked_tenants", UNPARKED, lambda changes: changes.unparked, _ids),
    Step("parked_tenants", PARKED, lambda changes: changes.parked, values),
    Step("parked_events", PARKED_EVENTS, lambda changes: changes.parked_events, values),
    Step("observed_states", OBSERVED_GONE, lambda changes: changes.observed_gone, _ids),
    Step("tenants", TENANTS, lambda changes: changes.tenants, values),
    Step("deployments", DEPLOYMENTS, lambda changes: changes.deployments, values, writes_all=True),
    Step("deployments", SIGHTINGS, lambda changes: changes.sightings, values),
    Step("resources", RESOURCES, lambda changes: changes.resources, values, writes_all=True),
    Step("resources", RESOURCE_SIGHTINGS, lambda changes: changes.resource_sightings, values),
    Step("checks", CHECKS, lambda changes: changes.checks, values),
    Step("sync_runs", SYNC_RUNS, lambda changes: changes.sync_runs, values),
    Step("observed_states", OBSERVED, lambda changes: changes.observed, values),
    Step("operations", OPERATIONS, lambda changes: changes.operations, values),
    Step("operations", OPERATIONS_MOVED, lambda changes: changes.operations_moved, values),
    Step("engine_resources", ENGINE, lambda changes: changes.engine, values),
    Step("engine_resources", ENGINE_ABSENT, lambda changes: changes.engine_absent, values),
    Step("engine_resources", ENGINE, lambda changes: changes.engine_departing, values),
    Step("engine_resources", ENGINE_GONE, lambda changes: changes.engine_gone, _keys),
    Step("workspace_resources", WORKSPACE, lambda changes: changes.workspace, values),
    Step("workspace_resources", WORKSPACE_GONE, lambda changes: changes.workspace_gone, _keys),
    Step("deployments", DEPLOYMENTS_DORMANT, lambda changes: changes.deployments_dormant, _ids),
    Step("resources", RESOURCES_DORMANT, lambda changes: changes.resources_dormant, _ids),
    Step("resources", RESOURCES_GONE, lambda changes: changes.resources_gone, _ids),
    Step("deployments", DEPLOYMENTS_GONE, lambda changes: changes.deployments_gone, _ids),
    Step("tenants", TENANTS_GONE, lambda changes: changes.tenants_gone, _ids),
)


class Fenced(Exception):
    """Another planner has gone on from these offsets: this process no longer owns the partitions."""


def save(connection: Connection[Any], changes: Changes, spans: Sequence[Span], owner: UUID) -> bool:
    """Send everything at once, in the open transaction; returns whether every object's row was written.

    Raises Fenced if the offsets are not the expected ones, or somebody else has taken up their partitions since.

    1. The fence moves the offsets, if they are where this process believes them to be, and still its own.
    2. The rows follow. A crash here leaves nothing: the transaction is never committed, the batch is read again.
    3. The caller commits. A crash after it leaves effects and offsets, and the next process goes on behind them.
    4. Kafka is told the offsets, as a hint. A crash before it leaves a hint that is too old, which nobody reads.
    """
    with connection.pipeline():
        fence = connection.execute(FENCE, [*values(spans), owner]) if spans else None
        written = [(step, connection.execute(step.statement, columns)) for step, columns in _needed(changes)]
    if fence is not None and fence.rowcount != len(spans):
        raise Fenced(f"{len(spans) - fence.rowcount} partitions have moved on, or are another planner's by now")
    complete = True
    for step, cursor in written:
        ROWS_WRITTEN.labels(step.table).inc(cursor.rowcount)
        missing = len(step.rows(changes)) - cursor.rowcount
        if missing and step.writes_all:
            raise Poison(f"{missing} rows of {step.table} have the id of another tenant's")
        if missing and step.statement is ENGINE:
            complete = False
            _tell_collisions(connection, step.rows(changes))
    return complete


def _tell_collisions(connection: Connection[Any], rows: Sequence[EngineRow]) -> None:
    """Some of ``rows`` were not written: they were equal already, or another tenant has their name. Tell the latter."""
    keys = ("engine_instance_id", "kind", "namespace", "name", "lane", "workspace", "tenant_namespace")
    columns = [[getattr(row, key) for row in rows] for key in keys]
    for kind, namespace, name, *tenants in connection.execute(COLLISIONS, columns):
        NAME_COLLISIONS.labels(kind).inc()
        refused, owner = "/".join(tenants[:2]), "/".join(tenants[2:])
        log.warning(
            "the name is another tenant's", kind=kind, namespace=namespace, name=name, refused=refused, owner=owner
        )


def _needed(changes: Changes) -> Iterable[tuple[Step, Sequence[Column]]]:
    return ((step, step.columns(rows)) for step in STEPS if (rows := step.rows(changes)))
