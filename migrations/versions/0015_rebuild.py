"""A database that is built anew from the logs is told where its tenants were, and how far the logs went then.

A planner of before leaves both tables alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "placements",
        sa.Column("tenant_id", sa.Uuid(), primary_key=True),
        sa.Column("engine_instance_id", sa.Text(), sa.ForeignKey("engine_instances.id"), nullable=False),
        comment="Where tenants are that the database does not know yet: input of a rebuild, which leaves it empty.",
    )
    op.create_table(
        "rebuild_positions",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True),
        sa.Column("first_offset", sa.BigInteger(), nullable=False, comment="Of the oldest message that there was."),
        sa.Column("end_offset", sa.BigInteger(), nullable=False, comment="After the newest."),
        comment="What the logs held when a rebuild began. Empty but while one is under way.",
    )
    op.execute("GRANT SELECT ON placements TO gitops_planner")


def downgrade() -> None:
    op.drop_table("rebuild_positions")
    op.drop_table("placements")
