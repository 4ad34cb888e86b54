"""Child objects of tenants' own namespaces, partitioned by workspace as statuses are: to Debezium each is a topic.

A planner of before goes on: it does not know the table, and none of its kinds has child objects. Workspaces that were
added before get a partition of their own by `gitopsctl workspaces add`, which may run again; until then their rows
would be in the default partition, whose topic nobody of ours reads.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

TABLE, OTHERS = "workspace_objects", "other_workspace_objects"
OWNER = ("owner_kind", "owner_name", "owner_uid")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column(
            "uid",
            sa.Text(),
            nullable=False,
            comment="Of the object that is to go; empty: whatever has the name and owner.",
        ),
        sa.Column(
            "owner_api_version", sa.Text(), nullable=False, comment="Of the CR that it is made for: its controller."
        ),
        *(sa.Column(name, sa.Text(), nullable=False, comment="Likewise.") for name in OWNER),
        sa.Column("manifest", sa.Text(), nullable=False, comment="What we own of the object, canonical JSON."),
        sa.Column("digest", sa.Text(), nullable=False, comment="SHA-256 of the manifest, hexadecimal."),
        sa.Column("revision", sa.BigInteger(), nullable=False, comment="Grows: the same manifest is applied anew."),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("seen_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.Column(
            "live_version", sa.Text(), nullable=False, comment="Of the object when this was written. Not streamed."
        ),
        sa.CheckConstraint("desired IN ('present', 'absent')", name=op.f("workspace_objects_desired_check")),
        sa.PrimaryKeyConstraint("workspace", "namespace", "kind", "name", name=op.f("workspace_objects_pkey")),
        comment="Streamed by its partitions: objects that tenants' own namespaces shall hold, or shall no longer hold.",
        postgresql_partition_by="LIST (workspace)",
    )
    # Not named as a workspace's own partition is: a workspace may have any name.
    op.execute(f"CREATE TABLE {OTHERS} PARTITION OF {TABLE} DEFAULT WITH (fillfactor = 80)")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {OTHERS} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {TABLE}")


def downgrade() -> None:
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {TABLE}")
    op.drop_table(TABLE)
