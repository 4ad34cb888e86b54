"""Rollouts of versions, ring by ring, and samples of what agents count, by which they are judged.

A planner of before goes on: it knows neither table. It would place new tenants on instances that a rollout has closed:
bring all planners before the first is ordered.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

TABLES = ("rollouts", "engine_samples")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _make_rollouts()
    op.create_table(
        "engine_samples",
        sa.Column("engine_instance_id", sa.Text(), nullable=False, comment="No foreign key: as an agent told it."),
        sa.Column("sampled_at", _TIME, nullable=False),
        sa.Column("applications", sa.Integer(), nullable=False),
        sa.Column("late", sa.Integer(), nullable=False, comment="Not compared in time."),
        sa.Column("failed_syncs", sa.Integer(), nullable=False, comment="Whose last sync has failed."),
        sa.Column("comparison_errors", sa.Integer(), nullable=False),
        sa.Column("comparison_p95_ms", sa.BigInteger(), comment="Since they were compared last. Null: there is none."),
        sa.Column("sync_p95_ms", sa.BigInteger(), comment="Of syncs that ended of late. Null: none did."),
        sa.PrimaryKeyConstraint("engine_instance_id", "sampled_at", name=op.f("engine_samples_pkey")),
        comment="What agents count of each instance's Applications each minute, for rollouts. Pruned soon.",
    )
    op.create_index(op.f("engine_samples_sampled_at_idx"), "engine_samples", ["sampled_at"])
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO gitops_planner")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _make_rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Uuid(), nullable=False, comment="The order's."),
        sa.Column("version", sa.Text(), nullable=False, comment="That comes to the fleet."),
        sa.Column(
            "profile", sa.Text(), nullable=False, comment="Configuration of the new instances; empty: the usual one."
        ),
        sa.Column("rings", sa.Text(), nullable=False, comment="In their order, comma separated."),
        sa.Column(
            "soak_seconds", sa.Integer(), nullable=False, comment="As ordered: how long each stage is looked at."
        ),
        sa.Column("is_security", sa.Boolean(), nullable=False, comment="Soaks are shorter."),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("ring", sa.Text(), nullable=False, comment="Which it is at; empty before the first."),
        sa.Column(
            "stage",
            sa.Integer(),
            nullable=False,
            comment="Percent of the ring's tenants; 0 before the first.",
        ),
        sa.Column("is_paused", sa.Boolean(), nullable=False, comment="Until an operator resumes it."),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=False,
            comment="How it ends after its ring; empty: it goes on.",
        ),
        sa.Column("sources", sa.Text(), nullable=False, comment="Ids of the ring's old instances, JSON."),
        sa.Column("targets", sa.Text(), nullable=False, comment="Ids of its new instances, JSON."),
        sa.Column(
            "baseline",
            sa.Text(),
            nullable=False,
            comment="Figures of the old instances before any tenant moved, JSON.",
        ),
        sa.Column("tenants", sa.Integer(), nullable=False, comment="Of the ring."),
        sa.Column("moved", sa.Integer(), nullable=False, comment="Those of them that are on new instances."),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=False,
            comment="What it waits for, or why it has stopped; empty: no words needed.",
        ),
        sa.Column("actor", sa.Text(), nullable=False, comment="Who ordered it, as it told."),
        sa.Column("ordered_at", _TIME, nullable=False),
        sa.Column("step_since", _TIME, nullable=False),
        sa.Column("moved_at", _TIME, nullable=False, comment="When moved changed last, or the step began."),
        sa.Column("due_at", _TIME, comment="When it is looked at next. Null: it is over, or paused."),
        sa.CheckConstraint(
            "step IN ('ordered', 'provisioning', 'moving', 'soaking', 'draining', 'retiring', 'reverting', 'done',"
            " 'failed', 'aborted')",
            name=op.f("rollouts_step_check"),
        ),
        sa.CheckConstraint("stage IN (0, 1, 10, 100)", name=op.f("rollouts_stage_check")),
        sa.CheckConstraint("outcome IN ('', 'failed', 'aborted')", name=op.f("rollouts_outcome_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("rollouts_pkey")),
        comment="Versions that come to the fleet ring by ring, and how far each has come. Pruned after a time.",
    )
