"""Objects that agents keep though no row desires them are remembered, so that operators can approve their removal.

A planner of before goes on: it does not know the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TABLE = "kept_orphans"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("engine_instance_id", sa.Text(), primary_key=True, comment="No foreign key: as an agent told it."),
        sa.Column("partition", sa.Integer(), nullable=False, comment="Of what is told of the instance."),
        sa.Column("existing", sa.Integer(), nullable=False, comment="Objects of ours that it has."),
        sa.Column("total", sa.Integer(), nullable=False, comment="Those that no row desires."),
        sa.Column(
            "objects", sa.Text(), nullable=False, comment="JSON of their names, sorted: as many as one approval takes."
        ),
        sa.Column(
            "digest", sa.Text(), nullable=False, comment="Names exactly these: an approval is of what was shown."
        ),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        comment="Objects that agents keep though no row desires them, because they are an implausible share.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(TABLE)
