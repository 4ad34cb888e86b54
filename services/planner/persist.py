"""Writes a plan's changes and the batch's offsets. Called by the store; the caller commits.

One statement per table, its rows as arrays. What is equal already is not written again: it would be streamed again.

The order of the statements is the order of the write-ahead log, so that consumers see an AppProject before the
Applications that need it (rows come sorted by wave). Columns are always written in full, also those that keep their
value: of a long value that an UPDATE does not set, the log holds only a reference, and Debezium a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from services.common.telemetry.metrics import ROWS_WRITTEN
from services.planner.offsets import Span
from services.planner.rows import Changes

FENCE = """
UPDATE consumer_offsets AS stored
   SET next_offset = taken.next
  FROM unnest(%b::text[], %b::int4[], %b::int8[], %b::int8[]) AS taken(topic, partition, expected, next)
 WHERE (stored.topic, stored.partition, stored.next_offset) = (taken.topic, taken.partition, taken.expected)
"""

TENANTS = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::int4[], %b::text[])
    ON CONFLICT (id) DO UPDATE
   SET partition = EXCLUDED.partition, engine_instance_id = EXCLUDED.engine_instance_id
"""

DEPLOYMENTS = """
INSERT INTO deployments (id, tenant_id, source, name, uid, resource_version, generation, epoch, present, deleting,
                         finalizer, spec, offered, environment, repository, digest, error, blocked, over_quota,
                         held_back_ms, sync_sequence, seen_at, trace_id)
SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int8[], %b::int8[],
                     %b::bool[], %b::bool[], %b::bool[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
                     %b::text[], %b::text[], %b::bool[], %b::int8[], %b::int8[], %b::timestamptz[], %b::text[])
    ON CONFLICT (id) DO UPDATE
   SET source = EXCLUDED.source, resource_version = EXCLUDED.resource_version, generation = EXCLUDED.generation,
       epoch = EXCLUDED.epoch, present = EXCLUDED.present, deleting = EXCLUDED.deleting,
       finalizer = EXCLUDED.finalizer, spec = EXCLUDED.spec, offered = EXCLUDED.offered,
       environment = EXCLUDED.environment, repository = EXCLUDED.repository, digest = EXCLUDED.digest,
       error = EXCLUDED.error, blocked = EXCLUDED.blocked, over_quota = EXCLUDED.over_quota,
       held_back_ms = EXCLUDED.held_back_ms, sync_sequence = EXCLUDED.sync_sequence, seen_at = EXCLUDED.seen_at,
       trace_id = EXCLUDED.trace_id
"""

SIGHTINGS = """
UPDATE deployments AS d
   SET resource_version = seen.resource_version, epoch = seen.epoch
  FROM unnest(%b::uuid[], %b::text[], %b::int8[]) AS seen(id, resource_version, epoch)
 WHERE d.id = seen.id
"""

RESOURCES = """
INSERT INTO resources (id, tenant_id, kind, source, name, uid, resource_version, generation, epoch, present, deleting,
                       finalizer, spec, omitted, refers_to, secret_type, created_at, target_uid, target_generation,
                       accepted, refusal, over_quota, held_back_ms, seen_at, trace_id)
SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int8[],
                     %b::int8[], %b::bool[], %b::bool[], %b::bool[], %b::text[], %b::text[], %b::text[], %b::text[],
                     %b::int8[], %b::text[], %b::int8[], %b::text[], %b::text[], %b::bool[], %b::int8[],
                     %b::timestamptz[], %b::text[])
    ON CONFLICT (id) DO UPDATE
   SET source = EXCLUDED.source, resource_version = EXCLUDED.resource_version, generation = EXCLUDED.generation,
       epoch = EXCLUDED.epoch, present = EXCLUDED.present, deleting = EXCLUDED.deleting,
       finalizer = EXCLUDED.finalizer, spec = EXCLUDED.spec, omitted = EXCLUDED.omitted,
       refers_to = EXCLUDED.refers_to, secret_type = EXCLUDED.secret_type, created_at = EXCLUDED.created_at,
       accepted = EXCLUDED.accepted, refusal = EXCLUDED.refusal, over_quota = EXCLUDED.over_quota,
       held_back_ms = EXCLUDED.held_back_ms, seen_at = EXCLUDED.seen_at,
       trace_id = EXCLUDED.trace_id
"""

RESOURCE_SIGHTINGS = """
UPDATE resources AS r
   SET resource_version = seen.resource_version, epoch = seen.epoch
  FROM unnest(%b::uuid[], %b::text[], %b::int8[]) AS seen(id, resource_version, epoch)
 WHERE r.id = seen.id
"""

CHECKS = """
INSERT INTO checks (resource_id, digest, reason, message, worked)
SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::text[], %b::text[])
    ON CONFLICT (resource_id) DO UPDATE
   SET digest = EXCLUDED.digest, reason = EXCLUDED.reason, message = EXCLUDED.message,
       worked = EXCLUDED.worked
"""

SYNC_RUNS = """
INSERT INTO sync_runs (resource_id, deployment_name, revision, first_version, deployment_id, sequence, state, phase,
                       message, synced_revision, started_at, finished_at)
SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::int8[], %b::uuid[], %b::int8[], %b::text[], %b::text[],
                     %b::text[], %b::text[], %b::text[], %b::text[])
    ON CONFLICT (resource_id) DO UPDATE
   SET deployment_id = EXCLUDED.deployment_id, sequence = EXCLUDED.sequence, state = EXCLUDED.state,
       phase = EXCLUDED.phase, message = EXCLUDED.message, synced_revision = EXCLUDED.synced_revision,
       started_at = EXCLUDED.started_at, finished_at = EXCLUDED.finished_at
"""

OBSERVED = """
INSERT INTO observed_states (deployment_id, status, resource_version, observed_at, applied_digest, failed_digest,
                             failure, status_generation)
SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::timestamptz[], %b::text[], %b::text[], %b::text[],
                     %b::int8[])
    ON CONFLICT (deployment_id) DO UPDATE
   SET status = EXCLUDED.status, resource_version = EXCLUDED.resource_version, observed_at = EXCLUDED.observed_at,
       applied_digest = EXCLUDED.applied_digest, failed_digest = EXCLUDED.failed_digest, failure = EXCLUDED.failure,
       status_generation = EXCLUDED.status_generation
"""

OPERATIONS = """
INSERT INTO operations (id, deployment_id, workspace, namespace, kind, name, generation, action, actor, state,
                        message, trace_id, created_at, updated_at)
SELECT *, now() FROM unnest(%b::uuid[], %b::uuid[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int8[],
                            %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[])
    ON CONFLICT (id) DO UPDATE
   SET state = EXCLUDED.state, message = EXCLUDED.message, updated_at = EXCLUDED.updated_at
"""

# Looked up one by one (OFFSET 0 is a fence to the optimizer): without statistics it believes that hardly any row is
# open, and reads all of them to find those few.
OPERATIONS_MOVED = """
UPDATE operations AS o
   SET state = moved.state, message = moved.message, updated_at = moved.updated_at
  FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::timestamptz[]) AS moved(id, state, message, updated_at)
 CROSS JOIN LATERAL (SELECT known.id FROM operations AS known
                      WHERE known.id = moved.id AND known.state IN ('Waiting', 'Failed')
                     OFFSET 0) AS open
 WHERE o.id = open.id
"""

# The lane in the conditions: names contain uids, which another cluster may have given out too.
ENGINE = """
INSERT INTO engine_resources AS known (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane,
                                       wave, desired, manifest, digest, trace_id, seen_at, updated_at)
SELECT *, clock_timestamp()
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int2[],
              %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[])
    ON CONFLICT (engine_instance_id, kind, namespace, name) DO UPDATE
   SET workspace = EXCLUDED.workspace, tenant_namespace = EXCLUDED.tenant_namespace, lane = EXCLUDED.lane,
       wave = EXCLUDED.wave, desired = EXCLUDED.desired, manifest = EXCLUDED.manifest, digest = EXCLUDED.digest,
       trace_id = EXCLUDED.trace_id, seen_at = EXCLUDED.seen_at, updated_at = EXCLUDED.updated_at
 WHERE (known.digest, known.desired) IS DISTINCT FROM (EXCLUDED.digest, EXCLUDED.desired)
   AND known.lane = EXCLUDED.lane
"""

# The manifest is written anew although it stays: of a long value that an UPDATE leaves alone the log holds a reference.
ENGINE_ABSENT = """
UPDATE engine_resources AS known
   SET desired = 'absent', manifest = known.manifest || '', trace_id = gone.trace_id, seen_at = gone.seen_at,
       updated_at = clock_timestamp()
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[])
       AS gone(engine_instance_id, kind, namespace, name, lane, trace_id, seen_at)
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

WORKSPACE = """
INSERT INTO workspace_resources AS known (workspace, namespace, kind, name, uid, generation, status,
                                          release_finalizer, digest, trace_id, seen_at, updated_at)
SELECT *, clock_timestamp()
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int8[], %b::text[], %b::bool[],
              %b::text[], %b::text[], %b::timestamptz[])
    ON CONFLICT (workspace, namespace, kind, name) DO UPDATE
   SET uid = EXCLUDED.uid, generation = EXCLUDED.generation, status = EXCLUDED.status,
       release_finalizer = EXCLUDED.release_finalizer, digest = EXCLUDED.digest, trace_id = EXCLUDED.trace_id,
       seen_at = EXCLUDED.seen_at, updated_at = EXCLUDED.updated_at
 WHERE (known.uid, known.release_finalizer, known.digest)
       IS DISTINCT FROM (EXCLUDED.uid, EXCLUDED.release_finalizer, EXCLUDED.digest)
"""

WORKSPACE_GONE = """
DELETE FROM workspace_resources AS known
 USING unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS gone(workspace, namespace, kind, name)
 WHERE (known.workspace, known.namespace, known.kind, known.name)
     = (gone.workspace, gone.namespace, gone.kind, gone.name)
"""

OBSERVED_GONE = "DELETE FROM observed_states WHERE deployment_id = ANY(%b::uuid[])"
RESOURCES_GONE = "DELETE FROM resources WHERE id = ANY(%b::uuid[])"
DEPLOYMENTS_GONE = "DELETE FROM deployments WHERE id = ANY(%b::uuid[])"
# A plan does not see everything that a tenant has: its Secrets are read only where they matter.
TENANTS_GONE = """
DELETE FROM tenants AS t
 WHERE t.id = ANY(%b::uuid[]) AND NOT EXISTS (SELECT FROM resources r WHERE r.tenant_id = t.id)
"""

Column = list[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement: which rows of the changes it writes."""

    table: str
    statement: str
    rows: Callable[[Changes], Sequence[Any]]
    columns: Callable[[Sequence[Any]], Sequence[Column]]


def _fields(rows: Sequence[Any]) -> list[Column]:
    """Rows (dataclasses) turned to columns, in the order of their fields, which is the order of the statements."""
    return [[getattr(row, name) for row in rows] for name in type(rows[0]).__dataclass_fields__]


def _keys(rows: Sequence[tuple[Any, ...]]) -> list[Column]:
    return [list(column) for column in zip(*rows, strict=True)]


def _ids(rows: Sequence[Any]) -> list[Column]:
    return [list(rows)]


STEPS = (
    # What is referred to comes before what refers to it; what goes, goes before what comes under the same key.
    Step("observed_states", OBSERVED_GONE, lambda changes: changes.observed_gone, _ids),
    Step("tenants", TENANTS, lambda changes: changes.tenants, _fields),
    Step("deployments", DEPLOYMENTS, lambda changes: changes.deployments, _fields),
    Step("deployments", SIGHTINGS, lambda changes: changes.sightings, _fields),
    Step("resources", RESOURCES, lambda changes: changes.resources, _fields),
    Step("resources", RESOURCE_SIGHTINGS, lambda changes: changes.resource_sightings, _fields),
    Step("checks", CHECKS, lambda changes: changes.checks, _fields),
    Step("sync_runs", SYNC_RUNS, lambda changes: changes.sync_runs, _fields),
    Step("observed_states", OBSERVED, lambda changes: changes.observed, _fields),
    Step("operations", OPERATIONS, lambda changes: changes.operations, _fields),
    Step("operations", OPERATIONS_MOVED, lambda changes: changes.operations_moved, _fields),
    Step("engine_resources", ENGINE, lambda changes: changes.engine, _fields),
    Step("engine_resources", ENGINE_ABSENT, lambda changes: changes.engine_absent, _fields),
    Step("engine_resources", ENGINE_GONE, lambda changes: changes.engine_gone, _keys),
    Step("workspace_resources", WORKSPACE, lambda changes: changes.workspace, _fields),
    Step("workspace_resources", WORKSPACE_GONE, lambda changes: changes.workspace_gone, _keys),
    Step("resources", RESOURCES_GONE, lambda changes: changes.resources_gone, _ids),
    Step("deployments", DEPLOYMENTS_GONE, lambda changes: changes.deployments_gone, _ids),
    Step("tenants", TENANTS_GONE, lambda changes: changes.tenants_gone, _ids),
)


class Fenced(Exception):
    """Another planner has gone on from these offsets: this process no longer owns the partitions."""


def persist(connection: Connection[Any], changes: Changes, spans: Sequence[Span]) -> None:
    """Send everything at once, in the open transaction. Raises Fenced if the offsets are not the expected ones.

    1. The fence moves the offsets, if they are where this process believes them to be.
    2. The rows follow. A crash here leaves nothing: the transaction is never committed, the batch is read again.
    3. The caller commits. A crash after it leaves effects and offsets, and the next process goes on behind them.
    4. Kafka is told the offsets, as a hint. A crash before it leaves a hint that is too old, which nobody reads.
    """
    with connection.pipeline():
        fence = connection.execute(FENCE, _fields(spans)) if spans else None
        written = [(step.table, connection.execute(step.statement, columns)) for step, columns in _needed(changes)]
    if fence is not None and fence.rowcount != len(spans):
        raise Fenced(f"offsets of {len(spans) - fence.rowcount} partitions have moved on")
    for table, cursor in written:
        ROWS_WRITTEN.labels(table).inc(cursor.rowcount)


def _needed(changes: Changes) -> Iterable[tuple[Step, Sequence[Column]]]:
    return ((step, step.columns(rows)) for step in STEPS if (rows := step.rows(changes)))
