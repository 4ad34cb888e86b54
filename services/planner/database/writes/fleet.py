"""Writes the fleet: engine clusters, instances and pools, and where operators place tenants."""

from __future__ import annotations

from services.planner.database.columns import NAMES, deletion, recordset, upsert
from services.planner.database.tables.fleet import (
    engine_clusters,
    engine_instances,
    engine_overloads,
    engine_pools,
    tenant_pins,
    workspace_assignments,
)
from services.planner.domain.fleet.placement.assignments import PinKey, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Overload
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow

ENGINE_CLUSTERS = upsert(engine_clusters, EngineClusterRow)

# An instance stays in its cluster. To set a column that others refer to would lock the row against planners that write
# rows of the instance meanwhile.
ENGINE_INSTANCES = upsert(engine_instances, EngineInstanceRow, kept=["engine_cluster"])

ASSIGNMENTS = upsert(workspace_assignments, WorkspaceAssignment)
ASSIGNMENTS_GONE = f"DELETE FROM workspace_assignments WHERE workspace IN {NAMES}"

PINS = upsert(tenant_pins, TenantPin)
PINS_GONE = deletion(tenant_pins, PinKey)

ENGINE_POOLS = upsert(engine_pools, EnginePool)
ENGINE_POOLS_GONE = f"""
DELETE FROM engine_pools AS known
 USING {recordset(EnginePool, "gone")}
 WHERE (known.engine_cluster, known.ring) = (gone.engine_cluster, gone.ring)
"""

ENGINE_OVERLOADS = upsert(engine_overloads, Overload)
ENGINE_OVERLOADS_GONE = f"DELETE FROM engine_overloads WHERE engine_instance_id IN {NAMES}"
