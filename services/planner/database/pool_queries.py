"""Reads what is decided on when pools grow and shrink."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from services.planner.database.columns import names
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, PoolKey

POOLS = f"SELECT {names(EnginePool)} FROM engine_pools ORDER BY engine_cluster, ring"
OVERLOADS = f"SELECT {names(Overload)} FROM engine_overloads"
MOVED_SINCE = "SELECT DISTINCT tenant_id FROM moves WHERE step = 'done' AND step_since > %s"
STAYS = timedelta(days=1)
"""How long a tenant stays where it was moved to."""
# Instances of a pool that may be retired are locked before the fleet is read: see fleet_queries.LOCK.
LEAVING = """
SELECT i.id FROM engine_pools p JOIN engine_instances i ON i.id = p.leaving WHERE i.state = 'drained' ORDER BY i.id
"""
IS_SCALING_DUE = "SELECT EXISTS (SELECT FROM engine_pools) OR EXISTS (SELECT FROM engine_overloads)"
IN_WANT = "SELECT engine_cluster, ring, message <> '' FROM engine_pools"
OVERLOADED = "SELECT engine_instance_id FROM engine_overloads"
UNREADY = "SELECT id, state = 'failed' FROM engine_instances WHERE state IN ('provisioning', 'failed')"


def load_pools(connection: Connection[Any]) -> dict[PoolKey, EnginePool]:
    """All pools."""
    return {pool.key: pool for pool in (EnginePool(*row) for row in connection.execute(POOLS))}


def load_burdens(connection: Connection[Any], now: datetime) -> Burdens:
    """Overloaded instances, and the tenants that were moved within a day."""
    overloads = [Overload(*row) for row in connection.execute(OVERLOADS)]
    moved = connection.execute(MOVED_SINCE, (now - STAYS,)).fetchall()
    return Burdens({each.engine_instance_id: each for each in overloads}, frozenset(tenant for (tenant,) in moved))


def find_leaving(connection: Connection[Any]) -> list[str]:
    """Ids of instances that pools give up, and that no tenant is on."""
    return [instance for (instance,) in connection.execute(LEAVING)]


def is_scaling_due(connection: Connection[Any]) -> bool:
    """Whether anything grows and shrinks by itself, or an instance was overloaded at the last look."""
    row = connection.execute(IS_SCALING_DUE).fetchone()
    return row is not None and row[0]


def pools_in_want(connection: Connection[Any]) -> dict[PoolKey, bool]:
    """Of each pool whether something keeps it from what it needs."""
    return {(cluster, ring): wants for cluster, ring, wants in connection.execute(IN_WANT)}


def unready_instances(connection: Connection[Any]) -> dict[str, bool]:
    """Instances that have never been ready for tenants, and of each whether it should have been by now."""
    return dict(connection.execute(UNREADY).fetchall())


def overloaded_instances(connection: Connection[Any]) -> list[str]:
    """Instances that carried more of their capacity than they should at the last look."""
    return [instance for (instance,) in connection.execute(OVERLOADED)]
