"""A tenant that is too large for one instance has deployments on others, too.

A planner of before does not know that: it would have them all on the tenant's own instance. So all planners are of this
release before a tenant is split; until its deployments take up most of an instance none is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

PLACEMENTS = "deployment_placements"


def upgrade() -> None:
    op.add_column(
        "deployments",
        sa.Column(
            "engine_instance_id",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="That it is on, if that is not its tenant's. Empty: its tenant's.",
        ),
    )
    op.create_index(
        "deployments_parts_idx",
        "deployments",
        ["engine_instance_id"],
        postgresql_where=sa.text("engine_instance_id <> ''"),
    )
    op.create_table(
        PLACEMENTS,
        sa.Column("deployment_id", sa.Uuid(), primary_key=True),
        sa.Column("engine_instance_id", sa.Text(), sa.ForeignKey("engine_instances.id"), nullable=False),
        comment="Likewise of deployments that are on another instance than their tenant.",
    )
    op.execute(f"GRANT SELECT ON {PLACEMENTS} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(PLACEMENTS)
    op.drop_index("deployments_parts_idx", "deployments")
    op.drop_column("deployments", "engine_instance_id")
