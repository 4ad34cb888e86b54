"""A move tells what was wrong with the instance that it leaves; while there are moves the newest of the audit is read.

A planner of before goes on: it writes no reason, and so evacuates whom the planners of now would leave where they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

TABLE, COLUMN, NEWEST = "moves", "evacuated_for", "moves_step_since_idx"
NEWEST_OF_AUDIT = "audit_records_created_at_idx"
COMMENT = "Reason of the health of its source, if it is evacuated; empty if it is not."


def upgrade() -> None:
    op.add_column(TABLE, sa.Column(COLUMN, sa.Text(), nullable=False, server_default="", comment=COMMENT))
    op.create_index(op.f(NEWEST), TABLE, ["step_since"])
    op.execute(f"ALTER INDEX {NEWEST_OF_AUDIT} SET (autosummarize = on)")


def downgrade() -> None:
    op.execute(f"ALTER INDEX {NEWEST_OF_AUDIT} RESET (autosummarize)")
    op.drop_index(op.f(NEWEST), TABLE)
    op.drop_column(TABLE, COLUMN)
