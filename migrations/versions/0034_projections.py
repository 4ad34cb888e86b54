"""What kinds declare of their resources' metadata and of the status that other controllers write, with the resource.

A planner of before goes on: it does not write the columns, and no kind that it knows declares anything.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

TABLE = "resources"
COLUMNS = {
    "metadata": "What its kind declares of it. JSON or empty.",
    "metadata_omitted": "Why it was left out; empty: it was not.",
    "status": "Likewise, of what other controllers write.",
    "status_omitted": "Likewise.",
}


def upgrade() -> None:
    for name, comment in COLUMNS.items():
        op.add_column(TABLE, sa.Column(name, sa.Text(), nullable=False, server_default="", comment=comment))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column(TABLE, name)
