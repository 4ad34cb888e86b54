"""Agents tell of how many tenants Applications fail: one tenant alone, with whatever it commits, stops no rollout.

A planner of before goes on, and writes neither. Until agents tell it gates do not judge what fails: bring all of them
before the next rollout is ordered.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

TABLE = "engine_samples"
COLUMNS = {
    "tenants": "Whose Applications they are.",
    "failing_tenants": "With an Application that could not be compared, or whose last sync has failed.",
}


def upgrade() -> None:
    for name, comment in COLUMNS.items():
        op.add_column(TABLE, sa.Column(name, sa.Integer(), nullable=False, server_default="0", comment=comment))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column(TABLE, name)
