"""When a rebuild began: a list that began before it is not one anew.

Planners of before leave the table alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLE = "rebuild_positions"


def upgrade() -> None:
    op.add_column(
        TABLE,
        sa.Column(
            "began_at",
            sa.DateTime(timezone=True),
            nullable=False,
            server_default=sa.text("now()"),
            comment="When the rebuild began.",
        ),
    )


def downgrade() -> None:
    op.drop_column(TABLE, "began_at")
