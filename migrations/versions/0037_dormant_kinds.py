"""Tenants are read by an index of the rows that are not dormant: of Snapshots there may be ten thousand that are.

Planners of before ignore both indexes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

AWAKE, ADMITTED = "resources_awake_idx", "resources_admitted_dormant_idx"


def upgrade() -> None:
    op.create_index(AWAKE, "resources", ["tenant_id"], postgresql_where=sa.text("NOT dormant"))
    op.create_index(
        ADMITTED,
        "resources",
        ["tenant_id", "kind"],
        postgresql_where=sa.text("dormant AND present AND NOT over_quota"),
    )


def downgrade() -> None:
    op.drop_index(ADMITTED, "resources")
    op.drop_index(AWAKE, "resources")
