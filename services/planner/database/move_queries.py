"""Moves: those under way, which of them may begin, how long others' changes wait meanwhile, and those to forget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import columns_of, names
from services.planner.database.remedy_queries import HELD, IS_DOWN, IS_OUT_OF_REACH
from services.planner.domain.events import Event, MoveDue
from services.planner.domain.fleet.moves.pace import STALLED_AFTER, Latency
from services.planner.domain.fleet.reports.report_rows import TENANT_INDUCED
from services.planner.domain.fleet.rows import CANCELLABLE, OVER, Move, MoveStep
from services.planner.rows.tenants import TenantName

COMPLETED_WITHIN = timedelta(seconds=15)
"""What was completed within this time is what is judged of changes, beside what waits still."""
LONGEST_WAIT = timedelta(minutes=5)
"""Older changes are not looked at: they wait for something that the tenant has to do."""

UNDER_WAY = "step NOT IN ('done', 'cancelled')"
NOT_BEGUN = f"""
SELECT tenant_id FROM moves WHERE tenant_id = ANY(%s) AND {UNDER_WAY} AND step IN ('ordered', 'reserved')
"""
# What agents have reported of a move is for its tenant's planner alone, and may be long.
MOVE = ", ".join("'{}'" if column == "reported" else column for column in columns_of(Move))
MOVES = f"SELECT {MOVE} FROM moves WHERE {UNDER_WAY} ORDER BY ordered_at, id"
LOCK_MOVES = f"SELECT {MOVE} FROM moves WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
# One that was cancelled says nothing of its target.
RETURNED = """
SELECT tenant_id, target, count(*) FROM moves
 WHERE step = 'cancelled' AND NOT is_cancelled AND step_since > %s
 GROUP BY tenant_id, target
"""
EVACUATIONS = """
SELECT workspace, namespace, array_agg(DISTINCT source) FROM moves
 WHERE step_since BETWEEN %(since)s AND %(latest)s AND step IN ('adopting', 'withdrawing', 'done')
   AND evacuated_for = ANY(%(reasons)s)
 GROUP BY workspace, namespace
"""
MOVES_DUE = f"""
SELECT {names(Move, "m")}
  FROM moves m JOIN tenants t ON t.id = m.tenant_id
 WHERE m.step NOT IN ('ordered', 'done', 'cancelled')
   AND (m.due_at <= %(now)s OR (m.is_cancelled AND m.step IN ('reserved', 'preparing', 'pausing')))
   AND m.partition = ANY(%(partitions)s)
   AND NOT EXISTS (SELECT FROM parked_tenants parked WHERE parked.tenant_id = t.id)
 ORDER BY m.ordered_at
 LIMIT %(limit)s
"""
# moves_current_idx has these alone: those that are over are kept as long as the audit, and are not read.
OLDEST_MOVES = f"SELECT step, min(step_since) FROM moves WHERE {UNDER_WAY} GROUP BY 1"
FORGET_MOVES = """
DELETE FROM moves
 WHERE id = ANY(ARRAY(SELECT id FROM moves
                       WHERE step IN ('done', 'cancelled') AND step_since < %s
                       LIMIT %s FOR UPDATE SKIP LOCKED))
"""
GOES_BACK = ", ".join(f"'{step}'" for step in CANCELLABLE)
TENANTS_GONE = f"""
SELECT tenant_id FROM moves m WHERE {UNDER_WAY} AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id)
"""
# By the rules of begin_moves: thousands may wait for hours, while the next one begins each time that one is over.
IS_MOVE_DUE = f"""
WITH out_of_reach AS MATERIALIZED (
    SELECT id FROM engine_instances WHERE {IS_OUT_OF_REACH}
), places AS MATERIALIZED (
    SELECT place.id, count(*) AS taken, count(*) FILTER (WHERE m.step_since > %(stalled_since)s) AS in_motion
      FROM moves m
     CROSS JOIN LATERAL (VALUES (m.target), (CASE WHEN m.path = 'whole' THEN m.source END)) AS place(id)
     WHERE {UNDER_WAY} AND m.step <> 'ordered'
       AND NOT (m.step = 'withdrawing' AND (m.path = 'fenced' OR m.source IN (SELECT id FROM out_of_reach)))
       AND place.id IS NOT NULL
     GROUP BY place.id
), busy AS MATERIALIZED (
    SELECT id FROM places WHERE taken >= %(at_once)s
), giving_way AS MATERIALIZED (
    SELECT id FROM places WHERE in_motion >= %(paced)s
)
SELECT EXISTS (
    SELECT FROM moves m JOIN engine_instances i ON i.id = m.target
     WHERE {UNDER_WAY}
       AND ((m.step = 'ordered' AND m.is_cancelled)
        OR (m.step = 'ordered' AND NOT {IS_DOWN} AND m.target NOT IN (SELECT id FROM busy)
            AND ((m.path <> 'whole' AND m.source NOT IN ({HELD}))
                 OR (m.path = 'whole' AND m.source NOT IN (SELECT id FROM busy)
                     AND NOT ARRAY[m.source, m.target] && ARRAY(SELECT id FROM giving_way))))
        OR (i.state IN ('draining', 'drained', 'retired') AND NOT m.is_cancelled
            AND m.step IN ({GOES_BACK}))
        OR ({IS_DOWN} AND NOT m.is_cancelled AND m.step <> 'ordered' AND m.step IN ({GOES_BACK}))
        OR NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id))
)
"""
MAY_GIVE_WAY = f"SELECT EXISTS (SELECT FROM moves WHERE {UNDER_WAY} AND path = 'whole')"
# Both ends of a range are given: the optimizer expects a third of all rows between one and infinity. A tenant counts by
# the quickest of its changes: many of one tenant wait for each other. Not those that wait for what the tenant itself
# has to do, nor those that were replaced or refused meanwhile (these have a message); nor of tenants that are moved, or
# were just now, nor those for an instance that is down.
LATENCIES = f"""
WITH moved AS MATERIALIZED (
    SELECT tenant_id FROM moves WHERE {UNDER_WAY} AND (step <> 'ordered' OR path <> 'whole')
     UNION
    SELECT tenant_id FROM moves WHERE step_since BETWEEN %(since)s AND %(latest)s AND step <> 'ordered'
), newest AS MATERIALIZED (
    SELECT deployment_id, workspace, namespace,
           CASE state WHEN 'Completed' THEN updated_at ELSE %(now)s END - created_at AS waited
      FROM audit_records
     WHERE created_at BETWEEN %(earliest)s AND %(latest)s AND message = ''
       AND kind = '{GITOPS_DEPLOYMENT.kind}' AND action IN ('create', 'update')
       AND ((state = 'Completed' AND updated_at > %(since)s)
            OR (state = 'Waiting' AND created_at < %(now)s::timestamptz - %(wait)s::interval))
), quickest AS MATERIALIZED (
    SELECT t.id, coalesce(nullif(d.engine_instance_id, ''), t.engine_instance_id) AS instance, min(waited) AS waited
      FROM newest
      JOIN tenants t USING (workspace, namespace)
      LEFT JOIN deployments d ON d.id = newest.deployment_id
     WHERE t.former_since = 0 AND t.id NOT IN (SELECT tenant_id FROM moved) AND d.pending_spec IS NULL
     GROUP BY 1, 2
)
SELECT count(*), count(*) FILTER (WHERE waited > %(wait)s)
  FROM quickest JOIN engine_instances i ON i.id = quickest.instance
 WHERE NOT {IS_DOWN}
 GROUP BY i.engine_cluster
"""
# A tenant counts on each instance that it has a part on.
UNMOVED = f"""
SELECT i.id, count(*)
  FROM engine_instances i
 CROSS JOIN LATERAL (SELECT t.id FROM tenants t WHERE t.engine_instance_id = i.id
                      UNION
                     SELECT d.tenant_id FROM deployments d
                      WHERE d.engine_instance_id = i.id AND d.engine_instance_id <> '') AS here
 WHERE i.state = 'draining'
   AND NOT EXISTS (SELECT FROM moves m WHERE m.tenant_id = here.id AND m.source = i.id AND {UNDER_WAY})
 GROUP BY i.id
"""


def load_moves(connection: Connection[Any]) -> list[Move]:
    """All that are under way, in the order in which they were ordered; without what agents have reported of them."""
    return [Move(*row) for row in connection.execute(MOVES, binary=True).fetchall()]


def lock_moves(connection: Connection[Any], moves: Collection[Move]) -> bool:
    """Keep planners from taking steps of ``moves`` until the transaction ends; returns whether each is as it was read.

    In one order, whoever locks them.
    """
    rows = connection.execute(LOCK_MOVES, (sorted(move.id for move in moves),), binary=True)
    return {Move(*row) for row in rows} == {*moves}


def count_returned_moves(connection: Connection[Any], since: datetime) -> dict[tuple[UUID, str], int]:
    """By tenant and target, how many moves went back since then because a step took too long."""
    return {(tenant, target): count for tenant, target, count in connection.execute(RETURNED, (since,))}


def find_tenants_to_move(connection: Connection[Any], tenants: Collection[UUID]) -> frozenset[UUID]:
    """Those of ``tenants`` with a move that their planner has not begun with."""
    return frozenset(tenant for (tenant,) in connection.execute(NOT_BEGUN, (sorted(tenants),)))


def find_due_moves(connection: Connection[Any], now: datetime, partitions: Sequence[int], limit: int) -> list[Event]:
    """Moves of tenants of which the next step may be taken."""
    values = {"now": now, "partitions": list(partitions), "limit": limit}
    return [
        Event(MoveDue(move), move.partition, "")
        for move in (Move(*row) for row in connection.execute(MOVES_DUE, values))
    ]


def is_move_due(connection: Connection[Any], now: datetime, at_once: int, paced: int) -> bool:
    """Whether a move may begin, or is to end because its target is drained or its tenant is gone.

    Args:
        connection: to the database.
        now: the time.
        at_once: how many moves an instance has places for.
        paced: likewise for those that give way.
    """
    given = {"stalled_since": now - STALLED_AFTER, "at_once": at_once, "paced": paced}
    row = connection.execute(IS_MOVE_DUE, given).fetchone()
    return row is not None and row[0]


def measure_latencies(connection: Connection[Any], now: datetime, wait: timedelta) -> list[Latency]:
    """Of each engine cluster in which anything was changed; nothing if no move is under way that would give way.

    By the audit: it has when the watcher saw each change, and when an agent had applied it. ``wait``: how long that may
    take.
    """
    row = connection.execute(MAY_GIVE_WAY).fetchone()
    if row is None or not row[0]:
        return []
    given = {
        "now": now,
        "since": now - COMPLETED_WITHIN,
        "earliest": now - LONGEST_WAIT,
        "latest": now + LONGEST_WAIT,
        "wait": wait,
    }
    return [Latency(*row) for row in connection.execute(LATENCIES, given)]


def count_unmoved(connection: Connection[Any]) -> dict[str, int]:
    """How many tenants are on each instance that drains, and no move takes them from there."""
    return dict(connection.execute(UNMOVED).fetchall())


def load_evacuations(connection: Connection[Any], since: datetime, now: datetime) -> dict[TenantName, frozenset[str]]:
    """By tenant, instances that it was evacuated from since then for a reason that a tenant can cause.

    By name: whoever makes its namespace anew is the same.
    """
    given = {"since": since, "latest": now, "reasons": [*TENANT_INDUCED]}
    rows = connection.execute(EVACUATIONS, given).fetchall()
    return {(workspace, namespace): frozenset(sources) for workspace, namespace, sources in rows}


def move_ages(connection: Connection[Any], now: datetime) -> dict[MoveStep, float]:
    """Seconds since the move that has been longest at a step began with it; 0 of a step that none is at."""
    oldest = dict(connection.execute(OLDEST_MOVES).fetchall())
    under_way = [step for step in get_args(MoveStep) if step not in OVER]
    return {step: max(0.0, (now - oldest.get(step, now)).total_seconds()) for step in under_way}


def delete_moves(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` rows of moves that were over before ``before``; returns how many."""
    return connection.execute(FORGET_MOVES, (before, limit)).rowcount
