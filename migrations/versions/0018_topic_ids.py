"""A consumer offset says of which topic it is: one that was made anew under the name is another.

Planners of before leave the column as it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "consumer_offsets",
        sa.Column(
            "topic_id",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="Of the topic that the offset is of.",
        ),
    )


def downgrade() -> None:
    op.drop_column("consumer_offsets", "topic_id")
