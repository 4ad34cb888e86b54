"""What planners do by themselves for engine instances that are not well.

A planner of before goes on: it does not know the table, and so places tenants on instances that are cordoned. Moves
that it takes further are whole: it waits for their source.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLE, MOVES = "remediations", "moves"
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("engine_instance_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="Of the newest remedy; it grows."),
        sa.Column("rung", sa.Text(), nullable=False, comment="The newest remedy since it became ill; empty: none."),
        sa.Column("tried", sa.Text(), nullable=False, comment="All since then, JSON."),
        sa.Column("is_cordoned", sa.Boolean(), nullable=False, comment="No new tenant is placed on it."),
        sa.Column("message", sa.Text(), nullable=False, comment="Why it is in this state."),
        sa.Column("since", _TIME, nullable=False, comment="When it came into this state, or to this rung."),
        sa.Column("due_at", _TIME, comment="When it has to be looked at again, though nothing happens."),
        sa.Column(
            "told_number", sa.BigInteger(), nullable=False, comment="The remedy that its agent has told of last."
        ),
        sa.Column("told_outcome", sa.Text(), nullable=False),
        sa.Column("told_message", sa.Text(), nullable=False, comment="Why it could not be carried out; empty: it was."),
        sa.CheckConstraint(
            "state IN ('waiting', 'held', 'acting', 'recovering', 'exhausted', 'well')",
            name=op.f("remediations_state_check"),
        ),
        sa.CheckConstraint("told_outcome IN ('', 'done', 'skipped')", name=op.f("remediations_told_outcome_check")),
        sa.ForeignKeyConstraint(
            ["engine_instance_id"], ["engine_instances.id"], name=op.f("remediations_engine_instance_id_fkey")
        ),
        sa.PrimaryKeyConstraint("engine_instance_id", name=op.f("remediations_pkey")),
        comment="What was done for engine instances that are ill, or have been, and what comes next.",
    )
    op.add_column(
        MOVES,
        sa.Column(
            "path", sa.Text(), nullable=False, server_default="whole", comment="Whether its source is waited for."
        ),
    )
    op.create_check_constraint(op.f("moves_path_check"), MOVES, "path IN ('whole', 'forced', 'fenced')")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")


def downgrade() -> None:
    op.drop_column(MOVES, "path")
    op.drop_table(TABLE)
