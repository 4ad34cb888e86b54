"""Reads and forgets rows of the fleet: what operators' orders are decided on, and the audit of these."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import names
from services.planner.domain.fleet_rows import ROOM_AGAIN, EngineClusterRow, EngineInstanceRow, Fleet, Holding

CLUSTERS = f"SELECT {names(EngineClusterRow)} FROM engine_clusters"
INSTANCES = f"SELECT {names(EngineInstanceRow)} FROM engine_instances ORDER BY id"
# Who inserts a tenant holds a share of its instance's row until the commit (save.py): no tenant that another planner
# places meanwhile is missed.
LOCK = "SELECT FROM engine_instances WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
DEPLOYMENTS = f"""
SELECT count(*) FROM engine_resources e
 WHERE e.engine_instance_id = i.id AND e.owner_kind = '{GITOPS_DEPLOYMENT.kind}' AND e.desired = 'present'
"""
# Placements are of tenants that a rebuild is about to find on the instance.
HELD = f"""
SELECT i.id, count(placed.tenant), ({DEPLOYMENTS}),
       EXISTS (SELECT FROM engine_resources e WHERE e.engine_instance_id = i.id)
  FROM engine_instances i
  LEFT JOIN (SELECT engine_instance_id, id AS tenant FROM tenants
              UNION
             SELECT engine_instance_id, tenant_id FROM placements) AS placed ON placed.engine_instance_id = i.id
 GROUP BY i.id
"""
DECIDED = "SELECT id FROM fleet_orders WHERE id = ANY(%s)"
IS_DUE = f"""
SELECT EXISTS (
    SELECT FROM engine_instances i
     WHERE state IN ('draining', 'drained')
        OR (state = 'accepting' AND ({DEPLOYMENTS}) >= capacity)
        OR (state = 'full' AND ({DEPLOYMENTS}) < capacity * {ROOM_AGAIN})
)
"""
PRUNE = """
DELETE FROM fleet_orders
 WHERE id = ANY(ARRAY(SELECT id FROM fleet_orders WHERE decided_at < %s LIMIT %s FOR UPDATE SKIP LOCKED))
"""


def load_fleet_rows(
    connection: Connection[Any],
    engines: Collection[str],
    orders: Collection[UUID] = (),
    retiring: Collection[str] = (),
) -> Fleet:
    """All rows, and which of ``orders`` are decided; instances that are ``retiring`` are locked, in a transaction."""
    if retiring:
        connection.execute(LOCK, (sorted(retiring),))
    clusters = [EngineClusterRow(*row) for row in connection.execute(CLUSTERS)]
    instances = [EngineInstanceRow(*row) for row in connection.execute(INSTANCES)]
    held = {instance: Holding(*counted) for instance, *counted in connection.execute(HELD)}
    decided = frozenset(order for (order,) in connection.execute(DECIDED, (sorted(orders),)))
    return Fleet(
        {each.id: each for each in clusters}, {each.id: each for each in instances}, held, frozenset(engines), decided
    )


def is_due(connection: Connection[Any]) -> bool:
    """Whether an instance may have another state by now: tenants leave it, or it is full, or not any more."""
    row = connection.execute(IS_DUE).fetchone()
    return row is not None and row[0]


def delete_orders(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` rows of orders that were decided before ``before``; returns how many."""
    return connection.execute(PRUNE, (before, limit)).rowcount
