"""Columns say what they hold. Stop the planners of the revision before: they do not know the names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

RENAMED = (
    ("deployments", "offered", "pending_spec"),
    ("deployments", "blocked", "pending_reason"),
    ("checks", "worked", "working_spec"),
)
STARTED_FOR = "Started for; no foreign key: the run outlives its deployment."


def upgrade() -> None:
    for table, before, now in RENAMED:
        op.alter_column(table, before, new_column_name=now)
    _comment("Whose sync it is; no foreign key: the run outlives it.", STARTED_FOR)


def downgrade() -> None:
    for table, before, now in RENAMED:
        op.alter_column(table, now, new_column_name=before)
    _comment(STARTED_FOR, "Whose sync it is; no foreign key: the run outlives it.")


def _comment(now: str, before: str) -> None:
    op.alter_column(
        "sync_runs",
        "deployment_id",
        existing_type=sa.Uuid(),
        existing_nullable=True,
        existing_comment=before,
        comment=now,
    )
