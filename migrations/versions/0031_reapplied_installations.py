"""When the provisioner of an engine instance was last told to apply its configuration anew.

A planner of before goes on: it does not write the column. Without a default, which would be in the schema of what is
streamed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

INSTANCES, COLUMN = "engine_instances", "reapply_ordered_at"


def upgrade() -> None:
    comment = "When its provisioner was last told to make anew what is older."
    op.add_column(INSTANCES, sa.Column(COLUMN, sa.DateTime(timezone=True), comment=comment))


def downgrade() -> None:
    op.drop_column(INSTANCES, COLUMN)
