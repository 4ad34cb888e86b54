"""What a complete list lacked is removed in parts, each in a transaction of its own.

A planner of before goes on: it removes all at once, and leaves parts that others have decided to those that know the
table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

TABLE = "sweep_parts"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False, comment="Of the list that lacked them."),
        sa.Column(
            "turn", sa.Integer(), nullable=False, comment="The first part of each sweep comes before the second of any."
        ),
        sa.Column("subjects", sa.Text(), nullable=False, comment="JSON of the ids of those that are to be removed."),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="When the list was complete."),
        sa.PrimaryKeyConstraint("number", name=op.f("sweep_parts_pkey")),
        comment="What complete lists lacked and is to be removed, in parts of one transaction each.",
    )
    op.create_index(op.f("sweep_parts_partition_turn_number_idx"), TABLE, ["partition", "turn", "number"])
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(TABLE)
