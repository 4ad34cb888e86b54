"""What deployments may have left behind that their engines did not remove in time.

Planners of before go on: they know nothing of the table, and rows of tenants that they delete go with these.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TABLE = "forced_deletions"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("id", sa.Uuid(), primary_key=True, comment="The deployment's; no foreign key: it is gone."),
        sa.Column("tenant_id", sa.Uuid(), sa.ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="The deployment's."),
        sa.Column(
            "environment", sa.Text(), nullable=False, comment="Where it deployed to; empty: its tenant's own namespace."
        ),
        sa.Column("resources", sa.Text(), nullable=False, comment="Seen last, and not taken over since. JSON."),
        sa.Column("total", sa.Integer(), nullable=False, comment="How many there are, with those too many to be kept."),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, comment="When it is forgotten."),
        comment="What deployments may have left behind that their engines did not remove in time.",
    )
    for column in ("tenant_id", "due_at"):
        op.create_index(f"{TABLE}_{column}_idx", TABLE, [column])
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(TABLE)
