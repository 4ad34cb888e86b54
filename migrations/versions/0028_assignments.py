"""Workspaces are assigned to a region and a ring, tenants are pinned, engine clusters have a state; a queue is told.

A planner of before goes on: it places tenants as before, decides on none of these orders, and writes none of the new
columns, which have defaults. The two tables that are streamed have none: they would be in the schema of the stream.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

CLUSTERS, HEALTH = "engine_clusters", "engine_health"
ASSIGNMENTS, PINS = "workspace_assignments", "tenant_pins"
STREAMED = f"{ASSIGNMENTS}, {PINS}"
_TIME = sa.DateTime(timezone=True)
CLUSTERS_COMMENT = "Clusters that engine instances run in. A retired one stays: its id is never given out again."
CLUSTERS_COMMENT_BEFORE = "Clusters that engine instances run in."


def upgrade() -> None:
    _change_clusters()
    op.add_column(
        HEALTH,
        sa.Column(
            "queue",
            sa.Integer(),
            nullable=False,
            server_default="0",
            comment="Applications that waited to be compared throughout the last report.",
        ),
    )
    _make_tables()
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {STREAMED} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {STREAMED} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {STREAMED}")


def downgrade() -> None:
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {STREAMED}")
    op.drop_table(PINS)
    op.drop_table(ASSIGNMENTS)
    op.drop_column(HEALTH, "queue")
    op.create_table_comment(CLUSTERS, CLUSTERS_COMMENT_BEFORE)
    op.drop_column(CLUSTERS, "ordered_at")
    op.drop_column(CLUSTERS, "state")


def _change_clusters() -> None:
    op.add_column(CLUSTERS, sa.Column("state", sa.Text(), nullable=False, server_default="active"))
    op.add_column(
        CLUSTERS,
        sa.Column(
            "ordered_at",
            _TIME,
            nullable=False,
            server_default=sa.text("now()"),
            comment="When the newest order that changed it was given: an older one changes nothing.",
        ),
    )
    op.execute("UPDATE engine_clusters SET ordered_at = created_at")
    op.create_check_constraint(
        op.f("engine_clusters_state_check"), CLUSTERS, "state IN ('active', 'draining', 'retired')"
    )
    op.create_table_comment(CLUSTERS, CLUSTERS_COMMENT)


def _make_tables() -> None:
    op.create_table(
        ASSIGNMENTS,
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column(
            "region",
            sa.Text(),
            nullable=False,
            comment="Of the instances that its tenants are placed on; empty: any.",
        ),
        sa.Column("ring", sa.Text(), nullable=False, comment="Likewise."),
        sa.Column("assigned_at", _TIME, nullable=False, comment="When the newest order that changed it was given."),
        sa.CheckConstraint("ring IN ('', 'canary', 'early', 'general')", name=op.f("workspace_assignments_ring_check")),
        sa.CheckConstraint("region <> '' OR ring <> ''", name=op.f("workspace_assignments_assigned_check")),
        sa.PrimaryKeyConstraint("workspace", name=op.f("workspace_assignments_pkey")),
        comment="Streamed: which instances tenants of a workspace are placed on, as operators ordered it.",
    )
    op.create_table(
        PINS,
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("engine_instance_id", sa.Text(), nullable=False),
        sa.Column("pinned_at", _TIME, nullable=False, comment="When that was ordered."),
        sa.ForeignKeyConstraint(
            ["engine_instance_id"], ["engine_instances.id"], name=op.f("tenant_pins_engine_instance_id_fkey")
        ),
        sa.PrimaryKeyConstraint("workspace", "namespace", name=op.f("tenant_pins_pkey")),
        comment="Streamed: tenants that stay on an instance, as operators ordered it; and such that are still to come.",
    )
