"""Writes tenants with their resources, and what agents report of these."""

from __future__ import annotations

from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.columns import IDS, recordset, upsert
from services.planner.database.tables.tenants import (
    checks,
    deployments,
    forced_deletions,
    observed_states,
    resources,
    sync_runs,
    tenants,
)
from services.planner.domain.changes import Sighting, TenantPart
from services.planner.rows.tenants import Tenant

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

# What of them is not dormant is among the other changes; nothing of whoever has the name now is written yet.
REPLACED = f"""
  WITH formers AS (SELECT * FROM {recordset(Tenant, "replaced")}),
       marked AS (UPDATE tenants t SET former_since = formers.former_since FROM formers WHERE t.id = formers.id),
       deployments_left AS (DELETE FROM deployments d USING formers WHERE d.tenant_id = formers.id AND d.dormant),
       resources_left AS (DELETE FROM resources r USING formers WHERE r.tenant_id = formers.id AND r.dormant)
DELETE FROM workspace_statuses w USING formers
 WHERE (w.workspace, w.namespace) = (formers.workspace, formers.namespace)
"""

# A plan does not see everything that a tenant has: its dormant rows may still be there.
TENANTS_GONE = f"""
DELETE FROM tenants AS t
 WHERE t.id IN {IDS}
   AND NOT EXISTS (SELECT FROM resources r WHERE r.tenant_id = t.id)
   AND NOT EXISTS (SELECT FROM deployments d WHERE d.tenant_id = t.id)
   AND NOT EXISTS (SELECT FROM forced_deletions f WHERE f.tenant_id = t.id)
"""

DEPLOYMENTS = upsert(deployments, Deployment, kept=["tenant_id"], stamps=AWAKE, only=OWN)
DEPLOYMENTS_GONE = f"DELETE FROM deployments WHERE id IN {IDS}"

RESOURCES = upsert(resources, PlainResource, kept=["tenant_id"], stamps=AWAKE, only=OWN)
RESOURCES_GONE = f"DELETE FROM resources WHERE id IN {IDS}"

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

CHECKS = upsert(checks, Check)
SYNC_RUNS = upsert(sync_runs, SyncRun)
OBSERVED = upsert(observed_states, Observed)
OBSERVED_GONE = f"DELETE FROM observed_states WHERE deployment_id IN {IDS}"

FORCED_DELETIONS = upsert(forced_deletions, ForcedDeletion)
FORCED_DELETIONS_GONE = f"DELETE FROM forced_deletions WHERE id IN {IDS}"
