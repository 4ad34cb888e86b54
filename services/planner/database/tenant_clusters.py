"""Keeps ``tenant_clusters``: in which engine clusters a tenant is follows from its instance, and from its move.

A move that is only ordered counts for nothing: it may be over before it has begun, which no planner of the tenant hears
of. Once it has begun that planner writes its next step, and with it the clusters.

Written in the transaction that places or moves a tenant, as :mod:`save` does all of a batch; and, when a partition is
taken up, of all its tenants at once: a planner of a release before this table has written none.
"""

from __future__ import annotations

from services.planner.database.columns import recordset
from services.planner.database.move_queries import UNDER_WAY
from services.planner.domain.fleet.rows import Move
from services.planner.rows.tenants import Tenant

# The digest is that of services.common.messages.namespace_digest: watchers look a namespace up by it.
_ROWS = f"""
INSERT INTO tenant_clusters AS known (tenant_id, namespace_digest, engine_clusters)
SELECT t.id, encode(sha256(convert_to(concat_ws('/', t.workspace, t.namespace, t.namespace_uid), 'UTF8')), 'hex'),
       string_agg(DISTINCT i.engine_cluster, ',' ORDER BY i.engine_cluster)
  FROM tenants t
  LEFT JOIN moves m ON m.tenant_id = t.id AND {UNDER_WAY} AND m.step <> 'ordered'
  JOIN engine_instances i ON i.id = ANY(ARRAY[t.engine_instance_id, m.source, m.target])
 WHERE {{chosen}}
 GROUP BY t.id
    ON CONFLICT (tenant_id) DO UPDATE
   SET namespace_digest = EXCLUDED.namespace_digest, engine_clusters = EXCLUDED.engine_clusters
 WHERE (known.namespace_digest, known.engine_clusters)
       IS DISTINCT FROM (EXCLUDED.namespace_digest, EXCLUDED.engine_clusters)
"""
CLUSTERS_OF_TENANTS = _ROWS.format(chosen=f"t.id IN (SELECT id FROM {recordset(Tenant, 'written')})")
CLUSTERS_OF_MOVED = _ROWS.format(chosen=f"t.id IN (SELECT tenant_id FROM {recordset(Move, 'moved')})")
CLUSTERS_OF_PARTITIONS = _ROWS.format(chosen="t.partition = ANY(%s)")
