"""Agents tell when the first of the certificates expires that an engine instance depends on.

A planner of before goes on, and writes none: the column stays empty until the next report to one of now.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

TABLE, COLUMN = "engine_health", "certificate_expires_at"


def upgrade() -> None:
    op.add_column(
        TABLE,
        sa.Column(
            COLUMN,
            sa.DateTime(timezone=True),
            comment="The first of those that it depends on. Null: none is told of.",
        ),
    )


def downgrade() -> None:
    op.drop_column(TABLE, COLUMN)
