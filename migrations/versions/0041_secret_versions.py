"""The version of the Secret that a resource names, so that a copy of the Secret follows it.

A planner of before goes on: it does not write the column, and copies Secrets every ten minutes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

COMMENT = "Of the Secret that it names, if told."


def upgrade() -> None:
    column = sa.Column("secret_version", sa.Text(), nullable=False, server_default="", comment=COMMENT)
    op.add_column("resources", column)


def downgrade() -> None:
    op.drop_column("resources", "secret_version")
