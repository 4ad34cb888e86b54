"""What a GitOpsDeployment's kind declares of its metadata: the labels of those that are child objects are kept.

A planner of before goes on: it does not write the column.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "deployments",
        sa.Column(
            "metadata",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="What its kind declares of it. JSON or empty.",
        ),
    )


def downgrade() -> None:
    op.drop_column("deployments", "metadata")
