"""When each workspace was last listed completely, so that planners can tell of one whose watchers are gone.

A planner of before goes on: it does not know the table. It is filled by the lists that watchers send, the first of them
when they are restarted.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

TABLE = "complete_lists"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False, comment="When it began: milliseconds since 1970."),
        comment="The newest complete list of a workspace, kind and partition that was consumed.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(TABLE)
