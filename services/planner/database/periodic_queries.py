"""Statements that run by the clock: finding rows that are due, and deleting old ones.

No deleted row belongs to a tenant in memory: audit rows are never loaded, and a sync run is deleted only when it is
dormant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.catalogue import PLATFORM_NAMESPACE
from services.planner.database.columns import names
from services.planner.database.placement_view_queries import IS_NAMED
from services.planner.database.tables.compiled import workspace_statuses
from services.planner.domain.events import Due, Event, SweepDue
from services.planner.domain.parked_statuses import LeftStatus, shows_parked
from services.planner.rows.compiled import StoredStatus
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, SweepPart

# Rows of parked tenants stay due; they are left out, so that they do not use up the limit.
DUE = """
SELECT t.workspace, t.namespace, due.id, t.partition, due.trace_id
  FROM (SELECT id, tenant_id, trace_id, due_at FROM deployments WHERE due_at <= %(now)s
         UNION ALL
        SELECT id, tenant_id, trace_id, due_at FROM resources WHERE due_at <= %(now)s
         UNION ALL
        SELECT id, tenant_id, '', due_at FROM forced_deletions WHERE due_at <= %(now)s
       ) AS due
  JOIN tenants t ON t.id = due.tenant_id
 WHERE t.partition = ANY(%(partitions)s)
   AND NOT EXISTS (SELECT FROM parked_tenants parked WHERE parked.tenant_id = t.id)
 ORDER BY due.due_at
 LIMIT %(limit)s
"""
SWEEP_DUE = f"""
SELECT part.number, {names(SweepPart, "part")}
  FROM unnest(%s::int4[]) AS ours(partition)
 CROSS JOIN LATERAL (SELECT * FROM sweep_parts known
                      WHERE known.partition = ours.partition ORDER BY turn, number LIMIT 1) AS part
 ORDER BY part.turn, part.number
 LIMIT 1
"""
CROWDED = """
SELECT DISTINCT ON (t.id) t.workspace, t.namespace, d.id, t.partition, d.trace_id
  FROM deployments d JOIN tenants t ON t.id = d.tenant_id
 WHERE d.over_quota AND t.partition = ANY(%(partitions)s)
 ORDER BY t.id, d.seen_at, d.id
"""
# Of tenants in namespaces that instances of their engine clusters had: few are asked, each of them along an index.
FREED = f"""
SELECT t.workspace, t.namespace, refused.id, t.partition, refused.trace_id
  FROM (SELECT DISTINCT namespace FROM engine_instances) AS of_engines
 CROSS JOIN unnest(%(workspaces)s::text[]) AS local(workspace)
  JOIN tenants t USING (workspace, namespace)
  JOIN engine_instances own ON own.id = t.engine_instance_id
 CROSS JOIN LATERAL (SELECT id, trace_id FROM deployments d
                      WHERE d.tenant_id = t.id AND d.pending_reason = %(reason)s ORDER BY id LIMIT 1) AS refused
 WHERE t.former_since = 0 AND t.partition = ANY(%(partitions)s)
   AND NOT EXISTS (SELECT FROM engine_instances
                    WHERE (engine_instances.engine_cluster, engine_instances.namespace)
                          = (own.engine_cluster, t.namespace)
                      AND {IS_NAMED})
   AND NOT EXISTS (SELECT FROM parked_tenants parked WHERE parked.tenant_id = t.id)
 ORDER BY t.id
"""
SHOWN = f"""
SELECT t.workspace, t.namespace, shown.id, t.partition, shown.trace_id
  FROM (SELECT id, tenant_id, trace_id FROM deployments WHERE present AND NOT dormant
         UNION ALL
        SELECT id, tenant_id, trace_id FROM resources WHERE present AND NOT dormant AND kind <> '{SECRET.kind}'
       ) AS shown
  JOIN tenants t ON t.id = shown.tenant_id
 WHERE t.id = %(tenant)s
"""
STILL_SHOWN = """
SELECT w.kind, w.name, w.uid, w.generation, w.status, w.release_finalizer,
       EXISTS (SELECT FROM deployments d WHERE (d.tenant_id, d.name, d.uid) = (t.id, w.name, w.uid) AND d.present)
    OR EXISTS (SELECT FROM resources r
                WHERE (r.tenant_id, r.kind, r.name, r.uid) = (t.id, w.kind, w.name, w.uid) AND r.present)
  FROM (SELECT %s::uuid AS id, %s AS workspace, %s AS namespace) AS t
  JOIN workspace_statuses w USING (workspace, namespace)
 WHERE NOT EXISTS (SELECT FROM tenants former WHERE former.id = t.id AND former.former_since > 0)
"""
FORGET_RUNS = """
DELETE FROM resources
 WHERE id = ANY(ARRAY(SELECT r.id FROM resources r JOIN sync_runs s ON s.resource_id = r.id
                       WHERE NOT r.present AND r.dormant AND r.seen_at < %s
                       LIMIT %s FOR UPDATE OF r SKIP LOCKED))
"""
PRUNE = """
DELETE FROM audit_records
 WHERE id = ANY(ARRAY(SELECT id FROM audit_records
                       WHERE created_at < %s
                       LIMIT %s FOR UPDATE SKIP LOCKED))
"""
COUNT = """
SELECT count(*) FROM deployments d JOIN tenants t ON t.id = d.tenant_id WHERE d.present AND t.partition = ANY(%s)
"""
COUNT_REFUSED = "SELECT count(*) FROM refused_sweeps WHERE partition = ANY(%s)"
COUNT_SWEEP_PARTS = "SELECT count(*) FROM sweep_parts WHERE partition = ANY(%s)"
# Of every workspace that was added, whether or not a watcher of it was ever heard.
OLDEST_LISTS = f"""
WITH workspaces AS (
    SELECT substr(child.relname, length(%(prefix)s) + 1) AS name
      FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
     WHERE inhparent = '{workspace_statuses.name}'::regclass AND starts_with(child.relname, %(prefix)s)
)
SELECT w.name, k.kind, min(coalesce(l.epoch, 0))
  FROM workspaces w
 CROSS JOIN unnest(%(kinds)s::text[]) AS k(kind)
 CROSS JOIN unnest(%(partitions)s::int4[]) AS p(partition)
  LEFT JOIN complete_lists l ON (l.source, l.kind, l.partition) = (w.name, k.kind, p.partition)
 GROUP BY w.name, k.kind
"""
FORGET_LISTS = "DELETE FROM complete_lists WHERE epoch < %s"
COUNT_KEPT_ORPHANS = "SELECT coalesce(sum(total), 0) FROM kept_orphans WHERE partition = ANY(%s)"
FORGET_KEPT_ORPHANS = "DELETE FROM kept_orphans WHERE reported_at < %s"
COUNT_LEFT_BEHIND = """
SELECT coalesce(sum(f.total), 0)
  FROM forced_deletions f JOIN tenants t ON t.id = f.tenant_id WHERE t.partition = ANY(%s)
"""
UNCONFIRMED = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::float8
  FROM pg_replication_slots WHERE slot_name = %s AND database = current_database() AND wal_status <> 'lost'
"""
REBUILD_BEGAN = "SELECT min(began_at) FROM rebuild_positions"
WORKSPACE_TABLE = "workspace_resources_"
"""What the name of each workspace's own table begins with (``gitopsctl workspaces add``)."""
SLOT = "gitops"
"""The connector's: slot.name in services/cli/installation/connector.json."""
PARKED = f"SELECT {names(ParkedTenant)} FROM parked_tenants WHERE partition = ANY(%s) ORDER BY parked_at"
UNPLACED = f"""
SELECT {names(ParkedTenant)} FROM parked_tenants parked
 WHERE partition = ANY(%s) AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = parked.tenant_id)
 ORDER BY parked_at
"""
KEPT = f"""
SELECT {names(ParkedTenant, "p")}, (SELECT count(*) FROM parked_events kept WHERE kept.tenant_id = p.tenant_id)
  FROM parked_tenants p WHERE p.partition = ANY(%s)
"""
PARKED_EVENTS = f"SELECT {names(ParkedEvent)} FROM parked_events WHERE tenant_id = %s ORDER BY number"


def find_due(connection: Connection[Any], now: datetime, partitions: Sequence[int], limit: int) -> list[Event]:
    """Custom resources, and forced deletions, that the clock asks to look at."""
    return _found(connection, DUE, {"now": now, "partitions": list(partitions), "limit": limit})


def find_due_sweep(connection: Connection[Any], partitions: Sequence[int]) -> SweepDue | None:
    """The next part of what complete lists lacked, if there is any left."""
    row = connection.execute(SWEEP_DUE, (list(partitions),)).fetchone()
    return SweepDue(row[0], SweepPart(*row[1:])) if row is not None else None


def find_over_quota(connection: Connection[Any], partitions: Sequence[int]) -> list[Event]:
    """Of each tenant with deployments beyond its quota the oldest of these."""
    return _found(connection, CROWDED, {"partitions": list(partitions)})


def find_freed(connection: Connection[Any], workspaces: Sequence[str], partitions: Sequence[int]) -> list[Event]:
    """Of each tenant of these workspaces whose namespace no engine has any more a deployment that is refused for it."""
    values = {
        "workspaces": list(workspaces),
        "partitions": list(partitions),
        "reason": PLATFORM_NAMESPACE.message,
    }
    return _found(connection, FREED, values)


def delete_ended_runs(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` ended runs whose CR went before ``before``; returns how many."""
    return connection.execute(FORGET_RUNS, (before, limit)).rowcount


def delete_audit_records(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` audit rows made before ``before``; returns how many."""
    return connection.execute(PRUNE, (before, limit)).rowcount


def count_refused_sweeps(connection: Connection[Any], partitions: Sequence[int]) -> int:
    """Resyncs of these partitions that would have removed too much, and wait."""
    return _number(connection, COUNT_REFUSED, partitions)


def count_sweep_parts(connection: Connection[Any], partitions: Sequence[int]) -> int:
    """Parts of what complete lists lacked that are still to be removed."""
    return _number(connection, COUNT_SWEEP_PARTS, partitions)


def list_ages(
    connection: Connection[Any], kinds: Sequence[str], partitions: Sequence[int], now: datetime
) -> dict[tuple[str, str], float]:
    """Seconds since the newest complete list of a workspace and kind began, in the partition where that is longest.

    Infinite if one of these partitions never had one. Of all workspaces that were added; of none without partitions.
    """
    values = {"prefix": WORKSPACE_TABLE, "kinds": list(kinds), "partitions": list(partitions)}
    oldest = connection.execute(OLDEST_LISTS, values).fetchall()
    return {
        (workspace, kind): max(0.0, now.timestamp() - epoch / 1000) if epoch else math.inf
        for workspace, kind, epoch in oldest
    }


def forget_lists(connection: Connection[Any], before: datetime) -> int:
    """Delete the rows of lists that began before ``before``, which no log has any more; returns how many."""
    return connection.execute(FORGET_LISTS, (round(before.timestamp() * 1000),)).rowcount


def count_kept_orphans(connection: Connection[Any], partitions: Sequence[int]) -> int:
    """Objects of instances of these partitions that agents keep though no row desires them."""
    return _number(connection, COUNT_KEPT_ORPHANS, partitions)


def forget_kept_orphans(connection: Connection[Any], before: datetime) -> int:
    """Delete rows that no agent has reported since ``before``: agents repeat what is still so. Returns how many."""
    return connection.execute(FORGET_KEPT_ORPHANS, (before,)).rowcount


def unconfirmed_bytes(connection: Connection[Any]) -> float:
    """Of the write-ahead log that the connector has not confirmed; infinite if it has lost its place, or has none."""
    row = connection.execute(UNCONFIRMED, [SLOT]).fetchone()
    return math.inf if row is None or row[0] is None else max(0.0, row[0])


def rebuild_age(connection: Connection[Any], now: datetime) -> float:
    """Seconds since the rebuild began that is under way; 0 if there is none."""
    ((began,),) = connection.execute(REBUILD_BEGAN).fetchall()
    return 0.0 if began is None else max(0.0, (now - began).total_seconds())


def count_deployments(connection: Connection[Any], partitions: Sequence[int]) -> int:
    """CRs that exist in these partitions."""
    return _number(connection, COUNT, partitions)


def count_left_behind(connection: Connection[Any], partitions: Sequence[int]) -> int:
    """Resources of these partitions' tenants that forced deletions may have left behind."""
    return _number(connection, COUNT_LEFT_BEHIND, partitions)


def parked_tenants(connection: Connection[Any], partitions: Sequence[int]) -> list[ParkedTenant]:
    """Those of these partitions, the longest parked first."""
    return [ParkedTenant(*row) for row in connection.execute(PARKED, (list(partitions),))]


def unplaced_tenants(connection: Connection[Any], partitions: Sequence[int]) -> list[ParkedTenant]:
    """Those that were parked because there was no engine instance for them, likewise."""
    return [ParkedTenant(*row) for row in connection.execute(UNPLACED, (list(partitions),))]


def count_parked_events(connection: Connection[Any], partitions: Sequence[int]) -> dict[ParkedTenant, int]:
    """How many events are kept of each parked tenant of these partitions."""
    return {ParkedTenant(*row): count for *row, count in connection.execute(KEPT, (list(partitions),))}


def parked_events(connection: Connection[Any], tenant: UUID) -> list[ParkedEvent]:
    """What has happened to a parked tenant, in order."""
    return [ParkedEvent(*row) for row in connection.execute(PARKED_EVENTS, (tenant,))]


def events_of_parked(connection: Connection[Any], tenant: UUID) -> list[Event]:
    """Custom resources of a parked tenant: they show that it is, until they are looked at again."""
    return _found(connection, SHOWN, {"tenant": tenant})


def find_parked_statuses(connection: Connection[Any], tenant: ParkedTenant) -> list[LeftStatus]:
    """Statuses that show that ``tenant`` is parked."""
    values = (tenant.tenant_id, tenant.workspace, tenant.namespace)
    found = (
        ((kind, name), StoredStatus(*stored), exists)
        for kind, name, *stored, exists in connection.execute(STILL_SHOWN, values)
    )
    return [left for left in found if shows_parked(left[1].status)]


def _number(connection: Connection[Any], query: LiteralString, partitions: Sequence[int]) -> int:
    row = connection.execute(query, (list(partitions),)).fetchone()
    return int(row[0]) if row else 0


def _found(connection: Connection[Any], query: LiteralString, values: dict[str, Any]) -> list[Event]:
    rows = connection.execute(query, values).fetchall()
    return [Event(Due(workspace, namespace, subject), at, trace) for workspace, namespace, subject, at, trace in rows]
