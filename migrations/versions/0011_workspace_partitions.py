"""Statuses are partitioned by workspace: to Debezium each partition is a table, and so a topic.

The table of before is the default partition, under its name: planners and connectors of before go on with it. New ones
write to `workspace_statuses`, and `gitopsctl workspaces add` makes a partition of a workspace's own.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE workspace_statuses (LIKE workspace_resources INCLUDING ALL) PARTITION BY LIST (workspace)")
    op.execute("COMMENT ON TABLE workspace_statuses IS 'Streamed by its partitions: the status that CRs shall show.'")
    op.execute("ALTER TABLE workspace_statuses ATTACH PARTITION workspace_resources DEFAULT")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON workspace_statuses TO gitops_planner")
    # A publication streams the partitions of a table that it names, those that are made later too, each as itself.
    op.execute("ALTER PUBLICATION gitops_compiled ADD TABLE workspace_statuses")
    op.execute("ALTER PUBLICATION gitops_compiled DROP TABLE workspace_resources")


def downgrade() -> None:
    op.execute("ALTER PUBLICATION gitops_compiled ADD TABLE workspace_resources")
    op.execute("ALTER TABLE workspace_statuses DETACH PARTITION workspace_resources")
    op.execute("INSERT INTO workspace_resources SELECT * FROM workspace_statuses")
    op.execute("DROP TABLE workspace_statuses")
