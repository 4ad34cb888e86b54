"""How engine instances are, as their agents tell; what followers of the fleet have to know of that is streamed.

A planner of before goes on: it writes none of these columns, and does not know the table. They have no value until an
agent has told something, and no default, which would be in the schema of what is streamed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

INSTANCES = "engine_instances"
COLUMNS = {
    "health": "As its agent told last; Unknown if that tells nothing any more.",
    "health_reason": "A word; empty if it is well.",
    "version": "Of what it runs; empty if that is not to be seen.",
}
TABLE = "engine_health"
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    for name, comment in COLUMNS.items():
        op.add_column(INSTANCES, sa.Column(name, sa.Text(), comment=comment))
    op.create_table(
        TABLE,
        sa.Column("engine_instance_id", sa.Text(), nullable=False, comment="No foreign key: as an agent told it."),
        sa.Column("partition", sa.Integer(), nullable=False, comment="Of what is told of the instance."),
        sa.Column("health", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, comment="A word; empty if it is well."),
        sa.Column("message", sa.Text(), nullable=False, comment="For operators."),
        sa.Column("version", sa.Text(), nullable=False, comment="Of what it runs; empty if that is not to be seen."),
        sa.Column("heartbeat_at", _TIME, comment="When its heartbeat Application was compared last."),
        sa.Column("since", _TIME, nullable=False, comment="When its health became what it is."),
        sa.Column("reported_at", _TIME, nullable=False, comment="When its agent last told anything."),
        sa.Column("due_at", _TIME, comment="When its health is Unknown, if nothing more is told. Null: it is."),
        sa.CheckConstraint(
            "health IN ('Healthy', 'Degraded', 'Down', 'Unknown')", name=op.f("engine_health_health_check")
        ),
        sa.PrimaryKeyConstraint("engine_instance_id", name=op.f("engine_health_pkey")),
        comment="What agents tell of instances each minute; what of that is to be streamed is with the instance.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(TABLE)
    for name in COLUMNS:
        op.drop_column(INSTANCES, name)
