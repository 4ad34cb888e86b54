"""Tenants know which namespace of their name they are.

A tenant of before has the first uid that a watcher tells. A planner of before goes on: it leaves the columns alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tenants",
        sa.Column("namespace_uid", sa.Text(), nullable=False, server_default="", comment="Empty: no watcher has told."),
    )
    op.add_column(
        "tenants",
        sa.Column(
            "namespace_created_at",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="Milliseconds since 1970.",
        ),
    )


def downgrade() -> None:
    op.drop_column("tenants", "namespace_created_at")
    op.drop_column("tenants", "namespace_uid")
