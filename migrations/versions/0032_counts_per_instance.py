"""Indexes that count what is on an engine instance without reading what is on the others.

A planner of before goes on, and counts as it did.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

INSTANCE = ["engine_instance_id"]
INDEXES = {
    "tenants_engine_instance_id_idx": ("tenants", None),
    "engine_resources_deployments_idx": (
        "engine_resources",
        sa.text("owner_kind = 'GitOpsDeployment' AND desired = 'present'"),
    ),
}
"""By name: the table, and which of its rows."""


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, (table, rows) in INDEXES.items():
            op.create_index(
                name, table, INSTANCE, postgresql_where=rows, postgresql_concurrently=True, if_not_exists=True
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in INDEXES:
            op.drop_index(name, postgresql_concurrently=True, if_exists=True)
