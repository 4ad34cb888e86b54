"""The DeploymentTargetClass that a claim or a target names, with the resource.

A planner of before goes on: it does not write the column, and no kind that it follows names a class.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

COMMENT = "That it names, JSON. Empty: none."


def upgrade() -> None:
    column = sa.Column("named_class", sa.Text(), nullable=False, server_default="", comment=COMMENT)
    op.add_column("resources", column)


def downgrade() -> None:
    op.drop_column("resources", "named_class")
