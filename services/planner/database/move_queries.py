"""Reads moves that are under way, and which of them may begin."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.planner.database.columns import columns_of
from services.planner.database.remedy_queries import IS_DOWN
from services.planner.domain.fleet.rows import CANCELLABLE, Move

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
GOES_BACK = ", ".join(f"'{step}'" for step in CANCELLABLE)
TENANTS_GONE = f"""
SELECT tenant_id FROM moves m WHERE {UNDER_WAY} AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id)
"""
# By the rules of settle_moves: thousands may wait for hours, while the next one begins each time that one is over.
IS_MOVE_DUE = f"""
WITH busy AS MATERIALIZED (
    SELECT place.id
      FROM moves m
     CROSS JOIN LATERAL (VALUES (m.target), (CASE WHEN m.path = 'whole' THEN m.source END)) AS place(id)
     WHERE {UNDER_WAY} AND m.step <> 'ordered' AND NOT (m.path = 'fenced' AND m.step = 'withdrawing')
       AND place.id IS NOT NULL
     GROUP BY place.id
    HAVING count(*) >= %(at_once)s
)
SELECT EXISTS (
    SELECT FROM moves m JOIN engine_instances i ON i.id = m.target
     WHERE {UNDER_WAY}
       AND ((m.step = 'ordered' AND m.is_cancelled)
        OR (m.step = 'ordered' AND NOT {IS_DOWN} AND m.target NOT IN (SELECT id FROM busy)
            AND (m.path <> 'whole' OR m.source NOT IN (SELECT id FROM busy)))
        OR (i.state IN ('draining', 'drained', 'retired') AND NOT m.is_cancelled
            AND m.step IN ({GOES_BACK}))
        OR ({IS_DOWN} AND NOT m.is_cancelled AND m.step <> 'ordered' AND m.step IN ({GOES_BACK}))
        OR NOT EXISTS (SELECT FROM tenants t WHERE t.id = m.tenant_id))
)
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


def is_move_due(connection: Connection[Any], at_once: int) -> bool:
    """Whether a move may begin, or is to end because its target is drained or its tenant is gone.

    ``at_once``: how many moves an instance has places for.
    """
    row = connection.execute(IS_MOVE_DUE, {"at_once": at_once}).fetchone()
    return row is not None and row[0]
