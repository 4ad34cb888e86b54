"""Planners delete the offsets of partitions that are not there any more."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("GRANT DELETE ON consumer_offsets TO gitops_planner")


def downgrade() -> None:
    op.execute("REVOKE DELETE ON consumer_offsets FROM gitops_planner")
