"""Places a restored database's tenants where they are by now: some were moved after its backup was made.

The backup has tenants where they were then, and orders about the fleet are not replayed. A tenant that stayed there
would be deployed a second time, and the sweep would remove what users have as nobody's. So the topics decide where a
tenant is: its objects move from the former instance in the backup to that one, and its deployments are compiled anew
there. A move that the backup has under way ends for such a tenant, and its former agents' reports are forgotten.

A sync that was running when the backup was made is not started again; its run ends when its time is over.

Called by :mod:`start`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from psycopg import Connection

from services.cli.rebuild.placements import Placements
from services.common.json_values import canonical, digest
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN
from services.planner.database.move_queries import UNDER_WAY
from services.planner.database.tables.compiled import engine_resources
from services.planner.engines.argocd.names import project_name

KEY = [column.name for column in engine_resources.primary_key]
PLACED = "unnest(%(ids)s::uuid[], %(instances)s::text[]) AS placed (id, engine_instance_id)"
MOVED_TENANTS = f"""
UPDATE tenants SET engine_instance_id = placed.engine_instance_id FROM tenants AS restored JOIN {PLACED} USING (id)
 WHERE tenants.id = restored.id AND tenants.engine_instance_id <> placed.engine_instance_id
RETURNING tenants.id, restored.engine_instance_id
"""  # noqa: S608 - of constants
MOVED_PARTS = f"""
UPDATE deployments SET engine_instance_id = coalesce(placed.engine_instance_id, '')
  FROM deployments AS restored LEFT JOIN {PLACED} USING (id)
 WHERE deployments.id = restored.id AND deployments.tenant_id = ANY(%(tenants)s)
   AND deployments.engine_instance_id <> coalesce(placed.engine_instance_id, '')
RETURNING deployments.tenant_id
"""  # noqa: S608 - of constants
END_MOVES = f"DELETE FROM moves WHERE tenant_id = ANY(%(tenants)s) AND {UNDER_WAY}"  # noqa: S608 - of constants
FORGET_REPORTS = """
UPDATE observed_states SET resource_version = '', applied_digest = '', failed_digest = '', failure = '',
                           failure_for_user = false
  FROM deployments WHERE deployments.id = deployment_id AND tenant_id = ANY(%(tenants)s)
"""
FORGET_SYNCS = f"""
DELETE FROM engine_resources WHERE lane = ANY(%(lanes)s) AND owner_kind = '{SYNC_RUN.kind}'
"""  # noqa: S608 - of constants
TAKE_MISPLACED = f"""
WITH misplaced AS (
SELECT {", ".join(f"existing.{name} AS existing_{name}" for name in KEY)}, placed.*
  FROM engine_resources AS existing
  JOIN unnest(%(tenants)s::uuid[], %(lanes)s::text[], %(former)s::text[]) AS moved (tenant_id, lane, former)
 USING (lane)
  JOIN tenants ON tenants.id = moved.tenant_id
  LEFT JOIN deployments ON deployments.id = existing.owner_id AND existing.owner_kind = '{GITOPS_DEPLOYMENT.kind}'
  JOIN engine_instances AS placed
    ON placed.id = coalesce(nullif(deployments.engine_instance_id, ''), tenants.engine_instance_id)
 WHERE existing.engine_instance_id <> placed.id
   AND (deployments.id IS NOT NULL OR existing.engine_instance_id = moved.former)
)
DELETE FROM engine_resources AS existing USING misplaced
 WHERE ({", ".join(f"existing.{name}" for name in KEY)}) = ({", ".join(f"existing_{name}" for name in KEY)})
RETURNING to_jsonb(existing), misplaced.id, misplaced.namespace, misplaced.engine_cluster
"""  # noqa: S608 - of constants
PUT_THERE = f"""
INSERT INTO engine_resources AS existing
SELECT * FROM jsonb_populate_recordset(NULL::engine_resources, %s::jsonb)
    ON CONFLICT ({", ".join(KEY)}) DO UPDATE
   SET {", ".join(f"{column.name} = EXCLUDED.{column.name}" for column in engine_resources.columns)}
 WHERE EXCLUDED.desired = 'present' OR existing.desired = 'absent'
"""  # noqa: S608 - of names of our columns
COMPILE_ANEW = (
    "UPDATE deployments SET due_at = clock_timestamp() WHERE tenant_id = ANY(%(tenants)s)",
    "UPDATE resources SET due_at = clock_timestamp() WHERE tenant_id = ANY(%(tenants)s) AND kind = ANY(%(kinds)s)",
)
COMPILED_KINDS = [MANAGED_ENVIRONMENT.kind, REPOSITORY_CREDENTIAL.kind]


def follow_moves(connection: Connection, placements: Placements) -> None:
    """Place tenants and their deployments as ``placements`` has them."""
    former = dict(_changed(connection, MOVED_TENANTS, placements.tenants))
    parts = _changed(connection, MOVED_PARTS, placements.deployments, tenants=list(placements.tenants))
    former |= {tenant: "" for (tenant,) in parts if tenant not in former}
    if not former:
        return
    tenants = sorted(former)
    named = {
        "tenants": tenants,
        "lanes": [*map(project_name, tenants)],
        "former": [former[each] for each in tenants],
        "kinds": COMPILED_KINDS,
    }
    for statement in (END_MOVES, FORGET_REPORTS, FORGET_SYNCS):
        connection.execute(statement.encode(), named)
    taken = [_moved_to(*each) for each in connection.execute(TAKE_MISPLACED.encode(), named)]
    # Of two rows of one object the one that wants it stays.
    there = {(row["engine_instance_id"], row["kind"], row["name"]): row for row in sorted(taken, key=_is_wanted)}
    connection.execute(PUT_THERE.encode(), [orjson.dumps([*there.values()]).decode()])
    for statement in COMPILE_ANEW:
        connection.execute(statement.encode(), named)


def _moved_to(row: dict[str, Any], instance: str, namespace: str, engine_cluster: str) -> dict[str, Any]:
    """The row of the same object on another instance."""
    manifest = orjson.loads(row["manifest"])
    text = canonical(manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}})
    place = {"engine_instance_id": instance, "namespace": namespace, "engine_cluster": engine_cluster}
    return row | place | {"manifest": text, "digest": digest(text)}


def _is_wanted(row: dict[str, Any]) -> bool:
    return bool(row["desired"] == "present")


def _changed(connection: Connection, statement: str, placements: Mapping[UUID, str], **more: object) -> list[Any]:
    """What ``statement`` returns of the rows that it has changed."""
    parameters = {"ids": [*placements], "instances": [*placements.values()], **more}
    return connection.execute(statement.encode(), parameters).fetchall()
