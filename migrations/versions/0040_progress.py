"""A resource has a column for what its kind's rules remember of it.

Planners of before leave it as it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "How far it has come. JSON of its kind's."
    op.add_column("resources", sa.Column("progress", sa.Text(), nullable=False, server_default="", comment=comment))


def downgrade() -> None:
    op.drop_column("resources", "progress")
