"""The audit tells what operators have put in force again.

A planner of before writes no such row, and reads none.
"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

CONSTRAINT = "audit_records_action_check"


def upgrade() -> None:
    _require("'create', 'update', 'delete', 'reissue'")


def downgrade() -> None:
    op.execute("UPDATE audit_records SET action = 'update' WHERE action = 'reissue'")
    _require("'create', 'update', 'delete'")


def _require(actions: str) -> None:
    """Not of the rows that there are: they have been checked, and to read them all would hold up planners."""
    op.execute(
        f"ALTER TABLE audit_records DROP CONSTRAINT {CONSTRAINT},"
        f" ADD CONSTRAINT {CONSTRAINT} CHECK (action IN ({actions})) NOT VALID"
    )
