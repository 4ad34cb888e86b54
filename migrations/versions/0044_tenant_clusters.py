"""In which engine clusters each tenant is, is a row of its own, which is streamed: watchers seal its Secrets to these.

A planner of before goes on, and writes none. What it places and moves meanwhile gets its row from the next planner that
takes its partition up. Nobody needs one before a sealing key names a cluster.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

TABLE = "tenant_clusters"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column(
            "namespace_digest", sa.Text(), nullable=False, comment="SHA-256 of workspace/namespace/uid, hexadecimal."
        ),
        sa.Column(
            "engine_clusters", sa.Text(), nullable=False, comment="Comma separated; two while it is moved between them."
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("tenant_clusters_tenant_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("tenant_clusters_pkey")),
        comment="Streamed: the engine clusters of each tenant, whose agents have to open its Secrets.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {TABLE} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {TABLE}")


def downgrade() -> None:
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {TABLE}")
    op.drop_table(TABLE)
