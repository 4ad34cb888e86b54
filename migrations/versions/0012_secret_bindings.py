"""Resources say what the Secret that they name may be used for, sealed.

A watcher of before does not tell. A planner of before goes on: it leaves the column alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "resources",
        sa.Column(
            "secret_binding",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="What it may be used for, sealed.",
        ),
    )


def downgrade() -> None:
    op.drop_column("resources", "secret_binding")
