"""Resyncs that were refused are remembered, with what they would have removed, until one comes through or is approved.

A planner of before goes on: it does not know the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "refused_sweeps",
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("known", sa.Integer(), nullable=False, comment="Resources that there were."),
        sa.Column(
            "subjects",
            sa.Text(),
            nullable=False,
            comment="JSON of the ids of those that it would have removed, sorted.",
        ),
        sa.Column(
            "digest",
            sa.Text(),
            nullable=False,
            comment="Names exactly this refusal: an approval is of what was shown.",
        ),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        comment="The newest resync of a kind and partition, if it would have removed an implausible share.",
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON refused_sweeps TO gitops_planner")


def downgrade() -> None:
    op.drop_table("refused_sweeps")
