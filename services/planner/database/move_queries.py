"""Reads moves that are under way, and which of them may begin."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import columns_of
from services.planner.database.remedy_queries import IS_DOWN
from services.planner.domain.fleet.moves.pace import STANDING
from services.planner.domain.fleet.rows import CANCELLABLE, OF_TENANTS, Move

OF_LATE = timedelta(seconds=15)
"""So new is what it is judged by whether changes wait."""
LONGEST_WAIT = timedelta(minutes=5)
"""What has waited for longer waits for its tenant."""
FEW, SHARE_THAT_WAITS = 3, 0.05
"""So many tenants at least, and more than this share of those that change anything: some keep their own waiting."""

UNDER_WAY = "step NOT IN ('done', 'cancelled')"
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
SELECT tenant_id, count(*) FROM moves
 WHERE step IN ('adopting', 'withdrawing', 'done') AND step_since > %s AND illness = ANY(%s)
 GROUP BY tenant_id
"""
GOES_BACK = ", ".join(f"'{step}'" for step in CANCELLABLE)
TENANTS_GONE = f"""
SELECT tenant_id FROM moves m WHERE {UNDER_WAY} AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id)
"""
# By the rules of settle_moves: thousands may wait for hours, while the next one begins each time that one is over.
IS_MOVE_DUE = f"""
WITH places AS MATERIALIZED (
    SELECT place.id, count(*) AS taken, count(*) FILTER (WHERE m.step_since > %(standing_since)s) AS in_motion
      FROM moves m
     CROSS JOIN LATERAL (VALUES (m.target), (CASE WHEN m.path = 'whole' THEN m.source END)) AS place(id)
     WHERE {UNDER_WAY} AND m.step <> 'ordered' AND NOT (m.path = 'fenced' AND m.step = 'withdrawing')
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
            AND (m.path <> 'whole'
                 OR (m.source NOT IN (SELECT id FROM busy)
                     AND NOT ARRAY[m.source, m.target] && ARRAY(SELECT id FROM giving_way))))
        OR (i.state IN ('draining', 'drained', 'retired') AND NOT m.is_cancelled
            AND m.step IN ({GOES_BACK}))
        OR ({IS_DOWN} AND NOT m.is_cancelled AND m.step <> 'ordered' AND m.step IN ({GOES_BACK}))
        OR NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id))
)
"""
MAY_GIVE_WAY = f"SELECT EXISTS (SELECT FROM moves WHERE {UNDER_WAY} AND path = 'whole')"
# By what the audit was told of late. Both ends of the range are given, because the optimizer expects a third of all
# rows between one and infinity. A tenant counts by the quickest of its changes: many of one tenant wait for each other.
# Not those that wait for what the tenant itself has to do, or for its move, or for an instance that is down.
CHANGES_WAIT = f"""
WITH moved AS MATERIALIZED (
    SELECT DISTINCT tenant_id FROM moves
     WHERE (step <> 'ordered' OR path <> 'whole') AND (({UNDER_WAY}) OR step_since > %(since)s)
), quickest AS MATERIALIZED (
    SELECT workspace, namespace,
           min(CASE state WHEN 'Completed' THEN updated_at ELSE %(now)s END - created_at) AS waited
      FROM audit_records a
     WHERE created_at BETWEEN %(earliest)s AND %(latest)s
       AND kind = '{GITOPS_DEPLOYMENT.kind}' AND action IN ('create', 'update')
       AND ((state = 'Completed' AND updated_at > %(since)s)
            OR (state = 'Waiting' AND message = '' AND created_at < %(now)s - %(wait)s
                AND NOT EXISTS (SELECT FROM deployments d WHERE d.id = a.deployment_id AND d.pending_spec IS NOT NULL)))
     GROUP BY workspace, namespace
)
SELECT EXISTS (
    SELECT FROM quickest
      JOIN tenants t USING (workspace, namespace)
      JOIN engine_instances i ON i.id = t.engine_instance_id
     WHERE t.former_since = 0 AND NOT {IS_DOWN} AND t.id NOT IN (SELECT tenant_id FROM moved)
     GROUP BY i.engine_cluster
    HAVING count(*) FILTER (WHERE waited > %(wait)s) >= %(few)s
       AND count(*) FILTER (WHERE waited > %(wait)s) > %(share)s * count(*)
)
"""
# A tenant counts on each instance that it has a part on.
LEFT = f"""
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


def is_move_due(connection: Connection[Any], now: datetime, at_once: int, paced: int) -> bool:
    """Whether a move may begin, or is to end because its target is drained or its tenant is gone.

    Args:
        connection: to the database.
        now: the time.
        at_once: how many moves an instance has places for.
        paced: likewise for those that give way.
    """
    given = {"standing_since": now - STANDING, "at_once": at_once, "paced": paced}
    row = connection.execute(IS_MOVE_DUE, given).fetchone()
    return row is not None and row[0]


def are_changes_waiting(connection: Connection[Any], now: datetime, wait: timedelta) -> bool | None:
    """Whether changes of too many tenants of an engine cluster take longer than ``wait``.

    None if no move is under way that would give way. By the audit: it has when the watcher saw each change, and when an
    agent had applied it.
    """
    row = connection.execute(MAY_GIVE_WAY).fetchone()
    if row is None or not row[0]:
        return None
    given = {
        "now": now,
        "since": now - OF_LATE,
        "earliest": now - LONGEST_WAIT,
        "latest": now + LONGEST_WAIT,
        "wait": wait,
        "few": FEW,
        "share": SHARE_THAT_WAITS,
    }
    row = connection.execute(CHANGES_WAIT, given).fetchone()
    return row is not None and row[0]


def count_left(connection: Connection[Any]) -> dict[str, int]:
    """How many tenants are on each instance that drains, and no move takes them from there."""
    return dict(connection.execute(LEFT).fetchall())


def count_evacuations(connection: Connection[Any], since: datetime) -> dict[UUID, int]:
    """By tenant, from how many instances it was evacuated since then that were ill of what tenants may cause."""
    return dict(connection.execute(EVACUATIONS, (since, [*OF_TENANTS])).fetchall())
