"""Tenants move from one engine instance to another, in steps that are rows.

A planner of before knows of no move, and takes no step of one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

MOVES = "moves"
INSTANCES = "engine_instances"
STEPS = (
    "step IN ('ordered', 'reserved', 'preparing', 'pausing', 'releasing', 'adopting', 'withdrawing', 'done',"
    " 'cancelling', 'cancelled')"
)
UNDER_WAY = "step NOT IN ('done', 'cancelled')"


def upgrade() -> None:
    op.create_table(
        MOVES,
        sa.Column("id", sa.Uuid(), nullable=False, comment="The order's."),
        sa.Column("tenant_id", sa.Uuid(), nullable=False, comment="No foreign key: the row outlives it."),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False, comment="The tenant's."),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("is_cancelled", sa.Boolean(), nullable=False, comment="It is to go back, if it still can."),
        sa.Column(
            "reported", sa.Text(), nullable=False, comment="What agents have reported that the step waits for. JSON."
        ),
        sa.Column("message", sa.Text(), nullable=False, comment="Why it was cancelled; empty if it was not."),
        sa.Column("actor", sa.Text(), nullable=False, comment="Who ordered it, as it told."),
        sa.Column("ordered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("step_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            comment="When it has to be looked at again, though nothing happens.",
        ),
        sa.CheckConstraint(STEPS, name=op.f("moves_step_check")),
        sa.ForeignKeyConstraint(["source"], [f"{INSTANCES}.id"], name=op.f("moves_source_fkey")),
        sa.ForeignKeyConstraint(["target"], [f"{INSTANCES}.id"], name=op.f("moves_target_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("moves_pkey")),
        comment="Tenants that go from one engine instance to another, and how far each has come. Pruned after a time.",
    )
    op.create_index("moves_current_idx", MOVES, ["tenant_id"], unique=True, postgresql_where=sa.text(UNDER_WAY))
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {MOVES} TO gitops_planner")


def downgrade() -> None:
    op.drop_table(MOVES)
