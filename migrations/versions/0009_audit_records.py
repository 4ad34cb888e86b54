"""The audit is called what it is: operations are Argo CD's. Stop the planners of the revision before.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLE = ("operations", "audit_records")
CONSTRAINTS = ("action_check", "state_check", "pkey")
INDEXES = ("created_at_idx", "deployment_id_idx")


def upgrade() -> None:
    _rename(*TABLE)


def downgrade() -> None:
    _rename(*reversed(TABLE))


def _rename(before: str, after: str) -> None:
    op.rename_table(before, after)
    for name in CONSTRAINTS:
        op.execute(f"ALTER TABLE {after} RENAME CONSTRAINT {before}_{name} TO {after}_{name}")
    for name in INDEXES:
        op.execute(f"ALTER INDEX {before}_{name} RENAME TO {after}_{name}")
