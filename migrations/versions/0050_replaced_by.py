"""A remediation tells which instance was ordered to take the place of its own.

A planner of before goes on: it writes no name, and keeps one that is there. What was ordered before this is not known:
an instance that is being evacuated meanwhile gets another replacement when it is retired.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

TABLE, COLUMN = "remediations", "replaced_by"
COMMENT = "The instance that was ordered last to take its place; empty: none was."


def upgrade() -> None:
    op.add_column(TABLE, sa.Column(COLUMN, sa.Text(), nullable=False, server_default="", comment=COMMENT))


def downgrade() -> None:
    op.drop_column(TABLE, COLUMN)
