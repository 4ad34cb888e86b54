"""Whom each object of an engine was made for is a column of its own, no longer read from its name.

It only adds, with defaults that PostgreSQL does not write into existing rows; the new index is built beside the
traffic. But stop the planners of the revision before: what they write after this has no owner, and would be removed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NOBODY = "'00000000-0000-0000-0000-000000000000'"

# The manifest is written anew although it stays: of a long value that an UPDATE leaves alone the log holds a reference,
# and these rows are streamed.
OWN = """
UPDATE engine_resources e
   SET manifest = e.manifest || '', owner_kind = found.kind, owner_id = found.id
  FROM ({owners}) AS found(row_kind, name, lane, kind, id)
 WHERE (e.kind, e.name, e.lane) = (found.row_kind, found.name, found.lane)
"""
DEPLOYMENTS = """
SELECT 'Application', 'gitopsdepl-' || uid, 'app-project-' || tenant_id, 'GitOpsDeployment', id FROM deployments
"""
RESOURCES = """
SELECT row_kind, prefix || r.id || suffix, 'app-project-' || r.tenant_id, r.kind, r.id
  FROM resources r
  JOIN (VALUES ('GitOpsDeploymentManagedEnvironment', 'ClusterSecret', 'managed-env-', ''),
               ('GitOpsDeploymentRepositoryCredential', 'RepositorySecret', 'repo-cred-', ''),
               ('GitOpsDeploymentRepositoryCredential', 'RepositorySecret', 'repo-cred-', '-cluster')
       ) AS made(kind, row_kind, prefix, suffix) USING (kind)
"""
PROJECTS = """
SELECT 'AppProject', 'app-project-' || id || suffix, 'app-project-' || id, 'Tenant', id
  FROM tenants CROSS JOIN (VALUES (''), ('-cluster')) AS either(suffix)
"""
RUNS = """
SELECT o.kind, o.name, o.lane, r.kind, r.id
  FROM engine_resources o
  JOIN resources r ON r.kind = 'GitOpsDeploymentSyncRun' AND o.lane = 'app-project-' || r.tenant_id
                  AND r.uid = o.manifest::json #>> '{{operation,run}}'
 WHERE o.kind = 'SyncOperation'
"""


def upgrade() -> None:
    for column in (
        sa.Column(
            "owner_kind",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="Whom it is for: kind. Not streamed.",
        ),
        sa.Column(
            "owner_id",
            sa.Uuid(),
            nullable=False,
            server_default=sa.text(NOBODY),
            comment="Whom it is for: id. Not streamed.",
        ),
    ):
        op.add_column("engine_resources", column)
    for owners in (DEPLOYMENTS, RESOURCES, PROJECTS, RUNS):
        op.execute(OWN.format(owners=owners.format()))
    op.execute("DELETE FROM engine_resources WHERE kind = 'SyncOperation' AND owner_kind = ''")  # of a run that is gone
    with op.get_context().autocommit_block():
        op.create_index(
            "engine_resources_shared_idx",
            "engine_resources",
            ["lane"],
            postgresql_where=sa.text("owner_kind <> 'GitOpsDeployment'"),
            postgresql_concurrently=True,
            if_not_exists=True,
        )
        op.drop_index("engine_resources_lane_kind_idx", postgresql_concurrently=True, if_exists=True)


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.create_index(
            op.f("engine_resources_lane_kind_idx"),
            "engine_resources",
            ["lane", "kind"],
            postgresql_concurrently=True,
            if_not_exists=True,
        )
        op.drop_index("engine_resources_shared_idx", postgresql_concurrently=True, if_exists=True)
    op.drop_column("engine_resources", "owner_id")
    op.drop_column("engine_resources", "owner_kind")
