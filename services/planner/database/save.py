"""Writes a plan's changes and the batch's offsets. Called by the session; the caller commits.

One statement per table, its rows as one JSON text, and one message for all of them. What is equal already is not
written again: it would be streamed again.

The order of the statements is the order of the write-ahead log, so that consumers see a tenant's projects before
the deployments that need them (rows come sorted by wave). Columns are always written in full, also those that keep
their value: of a long value that an UPDATE does not set, the log holds only a reference, and Debezium a placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import structlog
from psycopg import ClientCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus

from services.common.errors import Poison, Retry
from services.common.telemetry.metrics import NAME_COLLISIONS, ROWS_WRITTEN
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.columns import IDS, columns_of, document, names, recordset, upsert
from services.planner.database.tables.audit import audit_records
from services.planner.database.tables.compiled import (
    engine_resources,
    pending_claims,
    workspace_objects,
    workspace_statuses,
)
from services.planner.database.tables.consumption import complete_lists, parked_tenants, refused_sweeps
from services.planner.database.tables.fleet import (
    engine_clusters,
    engine_instances,
    engine_overloads,
    engine_pools,
    tenant_pins,
    workspace_assignments,
)
from services.planner.database.tables.fleet_progress import moves, remediations, rollouts
from services.planner.database.tables.instance_reports import engine_health, engine_samples, kept_orphans
from services.planner.database.tables.tenants import (
    checks,
    deployments,
    forced_deletions,
    observed_states,
    resources,
    sync_runs,
    tenants,
)
from services.planner.database.tenant_clusters import CLUSTERS_OF_MOVED, CLUSTERS_OF_TENANTS
from services.planner.domain.audit import RESTORED_ACTOR
from services.planner.domain.changes import Changes, Sighting, TenantPart
from services.planner.domain.events import SweepScope
from services.planner.domain.fleet.placement.assignments import PinKey, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Overload
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, ToldRemedy
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample, Rollout
from services.planner.domain.fleet.rows import (
    EngineClusterRow,
    EngineInstanceRow,
    FleetOrderRecord,
    Installation,
    InstanceHealth,
    Move,
)
from services.planner.rows import (
    AuditedChange,
    AuditOutcome,
    AuditRecord,
    ChildRow,
    ChildRowKey,
    EngineAbsence,
    EngineKey,
    EngineRow,
    KeptOrphans,
    ParkedEvent,
    ParkedTenant,
    PendingClaimKey,
    PendingClaimRow,
    RefusedSweep,
    SweepPart,
    Tenant,
    WorkspaceKey,
    WorkspaceRow,
)

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

# A uid that another tenant's resource has already: the row stays that tenant's.
OWN = "known.tenant_id = EXCLUDED.tenant_id"
AWAKE = {"dormant": "false"}

TENANTS = upsert(tenants, Tenant, kept=["workspace", "namespace"])
# Another planner may have retired an instance, or dedicated it to a workspace, since this one has read the fleet. Who
# does that locks its row, and a new tenant's foreign key shares that lock: the one sees a tenant that came before, the
# other what was done meanwhile.
PLACED_ON_CLOSED = f"""
SELECT FROM {recordset(Tenant, "written")}
  JOIN engine_instances i ON i.id = written.engine_instance_id
 WHERE i.state = 'retired' OR i.dedicated_to NOT IN ('', written.workspace)
"""
# The same of a tenant's first deployment on another instance than its own. Rows of objects, which are written before,
# share that lock.
PART_ON_CLOSED = f"""
SELECT FROM {recordset(TenantPart, "written")}
  JOIN engine_instances i ON i.id = written.engine_instance_id
  JOIN tenants t ON t.id = written.tenant_id
 WHERE i.state = 'retired' OR i.dedicated_to NOT IN ('', t.workspace)
"""
DEPLOYMENTS = upsert(deployments, Deployment, kept=["tenant_id"], stamps=AWAKE, only=OWN)
RESOURCES = upsert(resources, PlainResource, kept=["tenant_id"], stamps=AWAKE, only=OWN)
CHECKS = upsert(checks, Check)
SYNC_RUNS = upsert(sync_runs, SyncRun)
OBSERVED = upsert(observed_states, Observed)
FORCED_DELETIONS = upsert(forced_deletions, ForcedDeletion)
# Of a resource that was restored a former change may have the id of this one.
AUDIT_DISPLACED = f"""
UPDATE audit_records AS former
   SET id = change.displaced_id
  FROM {recordset(AuditedChange, "change")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known WHERE known.id = change.id OFFSET 0) AS found
 WHERE former.id = found.id
"""
AUDIT_RECORDS = upsert(
    audit_records,
    AuditRecord,
    kept=[field.name for field in fields(AuditRecord) if field.name not in {"state", "message"}],
    stamps={"updated_at": "now()"},
)

# A resource without a row was there before if there is a record of its deletion: a uid never returns by itself.
AUDIT_RESTORED = f"""
UPDATE audit_records AS o
   SET actor = '{RESTORED_ACTOR}'
  FROM {recordset(AuditedChange, "change")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known
                      WHERE known.id = change.id
                        AND (SELECT true FROM audit_records AS deletion WHERE deletion.id = change.deletion_id)
                     OFFSET 0) AS restored
 WHERE o.id = restored.id
"""

SIGHTINGS, RESOURCE_SIGHTINGS = (
    f"""
UPDATE {table} AS known
   SET resource_version = seen.resource_version, epoch = seen.epoch, dormant = seen.dormant
  FROM {recordset(Sighting, "seen")}
 WHERE known.id = seen.id
"""
    for table in (deployments, resources)
)
DEPLOYMENTS_DORMANT, RESOURCES_DORMANT = (
    f"UPDATE {table} SET dormant = true WHERE id IN {IDS} AND NOT dormant" for table in (deployments, resources)
)

# Looked up one by one (OFFSET 0 is a fence to the optimizer): without statistics it believes that hardly any row is
# open, and reads all of them to find those few.
AUDIT_OUTCOMES = f"""
UPDATE audit_records AS o
   SET state = moved.state, message = moved.message, updated_at = moved.updated_at
  FROM {recordset(AuditOutcome, "moved")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known
                      WHERE known.id = moved.id AND known.state IN ('Waiting', 'Failed')
                     OFFSET 0) AS open
 WHERE o.id = open.id
"""

# A row is streamed to its instance's cluster. The lane in the conditions: names contain uids, which another cluster may
# have given out too.
ENGINE = upsert(
    engine_resources,
    EngineRow,
    stamps={
        "updated_at": "clock_timestamp()",
        "engine_cluster": "(SELECT engine_cluster FROM engine_instances WHERE id = written.engine_instance_id)",
    },
    only="(known.digest, known.desired) IS DISTINCT FROM (EXCLUDED.digest, EXCLUDED.desired)"
    " AND known.lane = EXCLUDED.lane",
)
COLLISIONS = f"""
SELECT known.kind, known.namespace, known.name, wanted.workspace, wanted.tenant_namespace, known.workspace,
       known.tenant_namespace
  FROM {recordset(EngineRow, "wanted")}
  JOIN engine_resources known USING (engine_instance_id, kind, namespace, name)
 WHERE known.lane <> wanted.lane
"""

# The manifest is written anew although it stays: of a long value that an UPDATE leaves alone the log holds a reference.
ENGINE_ABSENT = f"""
UPDATE engine_resources AS known
   SET desired = 'absent', manifest = known.manifest || '', trace_id = gone.trace_id, seen_at = gone.seen_at,
       updated_at = clock_timestamp()
  FROM {recordset(EngineAbsence, "gone")}
 WHERE (known.engine_instance_id, known.kind, known.namespace, known.name)
     = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
   AND known.lane = gone.lane
   AND known.desired = 'present'
"""

ENGINE_GONE = f"""
DELETE FROM engine_resources AS known
 USING {recordset(EngineKey, "gone")}
 WHERE (known.engine_instance_id, known.kind, known.namespace, known.name)
     = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
   AND known.lane = gone.lane
"""

WORKSPACE = upsert(
    workspace_statuses,
    WorkspaceRow,
    stamps={"updated_at": "clock_timestamp()"},
    only="(known.uid, known.release_finalizer, known.digest)"
    " IS DISTINCT FROM (EXCLUDED.uid, EXCLUDED.release_finalizer, EXCLUDED.digest)",
)

WORKSPACE_GONE = f"""
DELETE FROM workspace_statuses AS known
 USING {recordset(WorkspaceKey, "gone")}
 WHERE (known.workspace, known.namespace, known.kind, known.name)
     = (gone.workspace, gone.namespace, gone.kind, gone.name)
   AND known.uid = gone.uid
"""

CHILD_OBJECTS = upsert(workspace_objects, ChildRow, stamps={"updated_at": "clock_timestamp()"})
CHILD_OBJECTS_GONE = f"""
DELETE FROM workspace_objects AS known
 USING {recordset(ChildRowKey, "gone")}
 WHERE (known.workspace, known.namespace, known.kind, known.name)
     = (gone.workspace, gone.namespace, gone.kind, gone.name)
   AND known.owner_uid = gone.owner_uid
"""

PENDING_CLAIMS = upsert(pending_claims, PendingClaimRow)
PENDING_CLAIMS_GONE = f"""
DELETE FROM pending_claims AS known
 USING {recordset(PendingClaimKey, "gone")}
 WHERE (known.workspace, known.namespace, known.name, known.uid)
     = (gone.workspace, gone.namespace, gone.name, gone.uid)
"""

PARKED = upsert(parked_tenants, ParkedTenant, kept=["parked_at"])
PARKED_EVENTS = f"INSERT INTO parked_events ({names(ParkedEvent)}) SELECT * FROM {recordset(ParkedEvent, 'kept')}"
UNPARKED = f"DELETE FROM parked_tenants WHERE tenant_id IN {IDS}"

# A marker that comes late does not hide what a newer one would remove.
REFUSED_SWEEPS = upsert(refused_sweeps, RefusedSweep, only="known.epoch <= EXCLUDED.epoch")
SWEEPS_DONE = f"""
DELETE FROM refused_sweeps AS refused
 USING {recordset(SweepScope, "done")}
 WHERE (refused.source, refused.kind, refused.partition) = (done.source, done.kind, done.partition)
   AND refused.epoch <= done.epoch
"""

SWEEP_PARTS = f"INSERT INTO sweep_parts ({names(SweepPart)}) SELECT * FROM {recordset(SweepPart, 'decided')}"
SWEEP_PARTS_DONE = "DELETE FROM sweep_parts WHERE number IN (SELECT value::int8 FROM json_array_elements_text($1))"

COMPLETE_LISTS = upsert(complete_lists, SweepScope, only="known.epoch < EXCLUDED.epoch")

KEPT_ORPHANS = upsert(kept_orphans, KeptOrphans)
KEPT_ORPHANS_GONE = (
    "DELETE FROM kept_orphans WHERE engine_instance_id IN (SELECT value FROM json_array_elements_text($1))"
)

# Of instances that there are, also of retired ones: whoever may report could else fill the table with names.
INSTALLATIONS = f"""
INSERT INTO engine_installations AS known ({names(Installation)})
SELECT {names(Installation, "told")}
  FROM {recordset(Installation, "told")} JOIN engine_instances i ON i.id = told.engine_instance_id
    ON CONFLICT (engine_instance_id) DO UPDATE
   SET {", ".join(f"{column} = EXCLUDED.{column}" for column in columns_of(Installation)[1:])}
 WHERE known.reported_at <= EXCLUDED.reported_at
"""
ENGINE_HEALTH = upsert(engine_health, InstanceHealth)
# Streamed, so it is written only when it is news. The other columns are the planner's that decides on the fleet.
HEALTH_OF_INSTANCES = f"""
UPDATE engine_instances AS known
   SET health = told.health, health_reason = told.reason, version = told.version
  FROM {recordset(InstanceHealth, "told")}
 WHERE known.id = told.engine_instance_id
   AND (known.health, known.health_reason, known.version) IS DISTINCT FROM (told.health, told.reason, told.version)
"""

# Two planners meet at a row: the one that decides on the fleet, and the one that an agent's reports come to.
REMEDIATIONS = upsert(remediations, Remediation, kept=["told_number", "told_outcome", "told_message"])
REMEDIES_TOLD = f"""
UPDATE remediations AS known
   SET told_number = told.number, told_outcome = told.outcome, told_message = told.message
  FROM {recordset(ToldRemedy, "told")}
 WHERE (known.engine_instance_id, known.number) = (told.engine_instance_id, told.number)
"""

ENGINE_CLUSTERS = upsert(engine_clusters, EngineClusterRow)
# An instance stays in its cluster. To set a column that others refer to would lock the row against planners that write
# rows of the instance meanwhile.
ENGINE_INSTANCES = upsert(engine_instances, EngineInstanceRow, kept=["engine_cluster"])
ASSIGNMENTS = upsert(workspace_assignments, WorkspaceAssignment)
ASSIGNMENTS_GONE = (
    "DELETE FROM workspace_assignments WHERE workspace IN (SELECT value FROM json_array_elements_text($1))"
)
PINS = upsert(tenant_pins, TenantPin)
PINS_GONE = f"""
DELETE FROM tenant_pins AS known USING {recordset(PinKey, "gone")}
 WHERE (known.workspace, known.namespace) = (gone.workspace, gone.namespace)
"""
ENGINE_POOLS = upsert(engine_pools, EnginePool)
ENGINE_POOLS_GONE = f"""
DELETE FROM engine_pools AS known
 USING {recordset(EnginePool, "gone")}
 WHERE (known.engine_cluster, known.ring) = (gone.engine_cluster, gone.ring)
"""
ENGINE_OVERLOADS = upsert(engine_overloads, Overload)
ENGINE_OVERLOADS_GONE = (
    "DELETE FROM engine_overloads WHERE engine_instance_id IN (SELECT value FROM json_array_elements_text($1))"
)
FLEET_ORDERS = f"""
INSERT INTO fleet_orders ({names(FleetOrderRecord)}) SELECT * FROM {recordset(FleetOrderRecord, "decided")}
"""

# Rows of moves that there are were locked when this was decided: what the tenants' planners write of them stays.
DECIDED_ON_THE_FLEET = {"step", "step_since", "is_cancelled", "message", "due_at", "path", "evacuated_for"}
MOVES_ORDERED = upsert(
    moves,
    Move,
    kept=[field.name for field in fields(Move) if field.name not in DECIDED_ON_THE_FLEET],
)
# What another planner has written meanwhile stays: of an order to cancel, the step that cannot be taken back is not
# taken; a move whose source is evacuated is looked at again when that planner wants it; one that is over stays so.
# In the order in which that planner locks them, as a rule: where PostgreSQL joins in another way it may end one of the
# two, which tries again.
IS_FORCED_MEANWHILE = "known.path = 'forced' AND moved.path = 'whole'"
MOVES = f"""
UPDATE moves AS known
   SET step = moved.step, is_cancelled = known.is_cancelled OR moved.is_cancelled, reported = moved.reported,
       message = CASE WHEN moved.message = '' THEN known.message ELSE moved.message END, step_since = moved.step_since,
       due_at = CASE WHEN {IS_FORCED_MEANWHILE} THEN known.due_at ELSE moved.due_at END,
       path = CASE WHEN {IS_FORCED_MEANWHILE} THEN known.path ELSE moved.path END
  FROM (SELECT * FROM {recordset(Move, "moved")} ORDER BY id) AS moved
 WHERE known.id = moved.id
   AND NOT (moved.step IN ('releasing', 'adopting') AND known.step NOT IN ('releasing', 'adopting')
            AND known.is_cancelled)
   AND known.step NOT IN ('done', 'cancelled')
"""

ROLLOUTS = upsert(
    rollouts,
    Rollout,
    kept=["version", "profile", "rings", "soak_seconds", "is_security", "actor", "ordered_at"],
)
ENGINE_SAMPLES = upsert(engine_samples, EngineSample)

# What of them is not dormant is among the other changes; nothing of whoever has the name now is written yet.
REPLACED = f"""
  WITH formers AS (SELECT * FROM {recordset(Tenant, "replaced")}),
       marked AS (UPDATE tenants t SET former_since = formers.former_since FROM formers WHERE t.id = formers.id),
       deployments_left AS (DELETE FROM deployments d USING formers WHERE d.tenant_id = formers.id AND d.dormant),
       resources_left AS (DELETE FROM resources r USING formers WHERE r.tenant_id = formers.id AND r.dormant)
DELETE FROM workspace_statuses w USING formers
 WHERE (w.workspace, w.namespace) = (formers.workspace, formers.namespace)
"""
FORCED_DELETIONS_GONE = f"DELETE FROM forced_deletions WHERE id IN {IDS}"
OBSERVED_GONE = f"DELETE FROM observed_states WHERE deployment_id IN {IDS}"
RESOURCES_GONE = f"DELETE FROM resources WHERE id IN {IDS}"
DEPLOYMENTS_GONE = f"DELETE FROM deployments WHERE id IN {IDS}"
# A plan does not see everything that a tenant has: its dormant rows may still be there.
TENANTS_GONE = f"""
DELETE FROM tenants AS t
 WHERE t.id IN {IDS}
   AND NOT EXISTS (SELECT FROM resources r WHERE r.tenant_id = t.id)
   AND NOT EXISTS (SELECT FROM deployments d WHERE d.tenant_id = t.id)
   AND NOT EXISTS (SELECT FROM forced_deletions f WHERE f.tenant_id = t.id)
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
    Statement("unparked", "parked_tenants", UNPARKED),
    Statement("parked", "parked_tenants", PARKED),
    Statement("parked_events", "parked_events", PARKED_EVENTS),
    Statement("engine_clusters", "engine_clusters", ENGINE_CLUSTERS),
    Statement("engine_instances", "engine_instances", ENGINE_INSTANCES),
    Statement("assignments_gone", "workspace_assignments", ASSIGNMENTS_GONE),
    Statement("assignments", "workspace_assignments", ASSIGNMENTS),
    Statement("pins_gone", "tenant_pins", PINS_GONE),
    Statement("pins", "tenant_pins", PINS),
    Statement("engine_pools_gone", "engine_pools", ENGINE_POOLS_GONE),
    Statement("engine_pools", "engine_pools", ENGINE_POOLS),
    Statement("engine_overloads_gone", "engine_overloads", ENGINE_OVERLOADS_GONE),
    Statement("engine_overloads", "engine_overloads", ENGINE_OVERLOADS),
    Statement("engine_installations", "engine_installations", INSTALLATIONS),
    Statement("engine_health", "engine_health", ENGINE_HEALTH),
    Statement("engine_health", "engine_instances", HEALTH_OF_INSTANCES),
    Statement("remediations", "remediations", REMEDIATIONS),
    Statement("remedies_told", "remediations", REMEDIES_TOLD),
    Statement("fleet_orders", "fleet_orders", FLEET_ORDERS),
    Statement("moves_ordered", "moves", MOVES_ORDERED),
    Statement("moves", "moves", MOVES),
    Statement("rollouts", "rollouts", ROLLOUTS),
    Statement("engine_samples", "engine_samples", ENGINE_SAMPLES),
    Statement("tenants_replaced", "workspace_statuses", REPLACED),
    Statement("observed_gone", "observed_states", OBSERVED_GONE),
    Statement("tenants", "tenants", TENANTS),
    Statement("tenants", "tenants", PLACED_ON_CLOSED),
    Statement("tenants", "tenant_clusters", CLUSTERS_OF_TENANTS),
    Statement("moves", "tenant_clusters", CLUSTERS_OF_MOVED),
    Statement("deployments", "deployments", DEPLOYMENTS, writes_all=True),
    Statement("sightings", "deployments", SIGHTINGS),
    Statement("plain_resources", "resources", RESOURCES, writes_all=True),
    Statement("plain_resource_sightings", "resources", RESOURCE_SIGHTINGS),
    Statement("checks", "checks", CHECKS),
    Statement("sync_runs", "sync_runs", SYNC_RUNS),
    Statement("observed", "observed_states", OBSERVED),
    Statement("forced_deletions", "forced_deletions", FORCED_DELETIONS),
    Statement("forced_deletions_gone", "forced_deletions", FORCED_DELETIONS_GONE),
    Statement("audited_changes", "audit_records", AUDIT_DISPLACED),
    Statement("audit_records", "audit_records", AUDIT_RECORDS),
    Statement("audited_changes", "audit_records", AUDIT_RESTORED),
    Statement("audit_outcomes", "audit_records", AUDIT_OUTCOMES),
    Statement("engine", "engine_resources", ENGINE),
    Statement("parts", "deployments", PART_ON_CLOSED),
    Statement("engine_absent", "engine_resources", ENGINE_ABSENT),
    Statement("engine_departing", "engine_resources", ENGINE),
    Statement("engine_gone", "engine_resources", ENGINE_GONE),
    Statement("workspace", "workspace_statuses", WORKSPACE),
    Statement("workspace_gone", "workspace_statuses", WORKSPACE_GONE),
    Statement("child_objects_gone", "workspace_objects", CHILD_OBJECTS_GONE),
    Statement("child_objects", "workspace_objects", CHILD_OBJECTS),
    Statement("pending_claims_gone", "pending_claims", PENDING_CLAIMS_GONE),
    Statement("pending_claims", "pending_claims", PENDING_CLAIMS),
    Statement("deployments_dormant", "deployments", DEPLOYMENTS_DORMANT),
    Statement("plain_resources_dormant", "resources", RESOURCES_DORMANT),
    Statement("plain_resources_gone", "resources", RESOURCES_GONE),
    Statement("deployments_gone", "deployments", DEPLOYMENTS_GONE),
    Statement("tenants_gone", "tenants", TENANTS_GONE),
    Statement("sweeps_done", "refused_sweeps", SWEEPS_DONE),
    Statement("refused_sweeps", "refused_sweeps", REFUSED_SWEEPS),
    Statement("sweep_parts_done", "sweep_parts", SWEEP_PARTS_DONE),
    Statement("sweep_parts", "sweep_parts", SWEEP_PARTS),
    Statement("lists_completed", "complete_lists", COMPLETE_LISTS),
    Statement("kept_orphans_gone", "kept_orphans", KEPT_ORPHANS_GONE),
    Statement("kept_orphans", "kept_orphans", KEPT_ORPHANS),
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
    4. Kafka is told the offsets, as a hint. A crash before it leaves a hint that is too old, which nobody reads.
    """
    needed = {number: rows for number, each in enumerate(STATEMENTS) if (rows := getattr(changes, each.field))}
    fence, *counts = _execute(connection, (document(spans), owner), needed)
    if fence != len(spans):
        raise Fenced(f"{len(spans) - fence} partitions have moved on, or are another planner's by now")
    complete = True
    for (number, rows), count in zip(needed.items(), counts, strict=True):
        statement, missing = STATEMENTS[number], len(rows) - count
        if count and statement.statement in (PLACED_ON_CLOSED, PART_ON_CLOSED):
            raise Retry(
                f"{count} {statement.table} were placed on engine instances that are retired or another workspace's by "
                "now"
            )
        if missing and statement.statement is MOVES:
            raise Retry(f"{missing} moves were cancelled meanwhile")
        ROWS_WRITTEN.labels(statement.table).inc(count)
        if missing and statement.writes_all:
            raise Poison(f"{missing} rows of {statement.table} have the id of another tenant's")
        if missing and statement.statement is ENGINE:
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
    for kind, namespace, name, *tenants in RawCursor(connection).execute(COLLISIONS, (document(rows),)):
        NAME_COLLISIONS.labels(kind).inc()
        refused, owner = "/".join(tenants[:2]), "/".join(tenants[2:])
        log.warning(
            "the name is another tenant's", kind=kind, namespace=namespace, name=name, refused=refused, owner=owner
        )
