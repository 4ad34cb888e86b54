"""Writes what is made of tenants for other services: compiled rows, and pending claims."""

from __future__ import annotations

from services.planner.database.columns import deletion, recordset, upsert
from services.planner.database.tables.compiled import (
    engine_resources,
    pending_claims,
    workspace_objects,
    workspace_statuses,
)
from services.planner.rows.compiled import (
    ChildRow,
    ChildRowKey,
    EngineAbsence,
    EngineKey,
    EngineRow,
    PendingClaimKey,
    PendingClaimRow,
    WorkspaceKey,
    WorkspaceRow,
)

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

ENGINE_GONE = deletion(engine_resources, EngineKey)

WORKSPACE = upsert(
    workspace_statuses,
    WorkspaceRow,
    stamps={"updated_at": "clock_timestamp()"},
    only="(known.uid, known.release_finalizer, known.digest)"
    " IS DISTINCT FROM (EXCLUDED.uid, EXCLUDED.release_finalizer, EXCLUDED.digest)",
)
WORKSPACE_GONE = deletion(workspace_statuses, WorkspaceKey)

CHILD_OBJECTS = upsert(workspace_objects, ChildRow, stamps={"updated_at": "clock_timestamp()"})
CHILD_OBJECTS_GONE = deletion(workspace_objects, ChildRowKey)

PENDING_CLAIMS = upsert(pending_claims, PendingClaimRow)
PENDING_CLAIMS_GONE = deletion(pending_claims, PendingClaimKey)
