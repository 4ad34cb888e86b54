"""Engine instances that are provisioned by us, and pools of them that grow and shrink with their load.

A planner of before goes on: it decides nothing about a state that it does not know, and writes none of the new columns.
These have no value of an instance that somebody else looks after, and no default, which would be in the schema of what
is streamed. So a planner of before may place a tenant on an instance that is not ready yet only while no other accepts:
bring all planners before the first instance is ordered with a version.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

INSTANCES = "engine_instances"
_TIME = sa.DateTime(timezone=True)
COLUMNS = (
    ("wanted_version", sa.Text(), "Of Argo CD, that a provisioner installs and keeps. Null: it is not ours."),
    ("profile", sa.Text(), "Configuration that it is installed with. Null: the usual one."),
    ("due_at", _TIME, "When it has failed, if it is still being provisioned then."),
    ("state_message", sa.Text(), "Why it is in its state. Null: that needs no words."),
)
STATES = "state IN ('provisioning', 'accepting', 'full', 'draining', 'drained', 'failed', 'retired')"
STATES_BEFORE = "state IN ('accepting', 'full', 'draining', 'drained', 'retired')"
TABLES = ("engine_installations", "engine_pools", "engine_overloads")


def upgrade() -> None:
    for name, kind, comment in COLUMNS:
        op.add_column(INSTANCES, sa.Column(name, kind, comment=comment))
    _constrain_states(STATES)
    _make_installations()
    _make_pools()
    op.create_table(
        "engine_overloads",
        sa.Column("engine_instance_id", sa.Text(), nullable=False),
        sa.Column(
            "relieved_at", _TIME, nullable=False, comment="When tenants move away, if it is overloaded until then."
        ),
        sa.ForeignKeyConstraint(
            ["engine_instance_id"],
            ["engine_instances.id"],
            name=op.f("engine_overloads_engine_instance_id_fkey"),
        ),
        sa.PrimaryKeyConstraint("engine_instance_id", name=op.f("engine_overloads_pkey")),
        comment="Instances that carry more of their capacity than they should.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO gitops_planner")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
    # Nothing is on an instance that was never ready: nobody may be placed on it.
    op.execute("UPDATE engine_instances SET state = 'retired' WHERE state IN ('provisioning', 'failed')")
    _constrain_states(STATES_BEFORE)
    for name, *_ in COLUMNS:
        op.drop_column(INSTANCES, name)


def _constrain_states(states: str) -> None:
    name = op.f("engine_instances_state_check")
    op.drop_constraint(name, INSTANCES)
    op.create_check_constraint(name, INSTANCES, states)


def _make_installations() -> None:
    op.create_table(
        "engine_installations",
        sa.Column("engine_instance_id", sa.Text(), nullable=False, comment="No foreign key: as a provisioner told it."),
        sa.Column("partition", sa.Integer(), nullable=False, comment="Of what is told of the instance."),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False, comment="Of the manifests that are applied; empty: none are."),
        sa.Column("message", sa.Text(), nullable=False, comment="For operators; empty if the phase says all."),
        sa.Column("reported_at", _TIME, nullable=False, comment="When its provisioner last told anything."),
        sa.CheckConstraint(
            "phase IN ('Applying', 'Applied', 'Failed', 'Removing', 'Removed')",
            name=op.f("engine_installations_phase_check"),
        ),
        sa.PrimaryKeyConstraint("engine_instance_id", name=op.f("engine_installations_pkey")),
        comment="How far provisioners are with what instances run, as they told last.",
    )


def _make_pools() -> None:
    op.create_table(
        "engine_pools",
        sa.Column("engine_cluster", sa.Text(), nullable=False),
        sa.Column("ring", sa.Text(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False, comment="Instances."),
        sa.Column("maximum", sa.Integer(), nullable=False, comment="Instances."),
        sa.Column("spare", sa.Integer(), nullable=False, comment="Instances beyond those that the load needs."),
        sa.Column("capacity", sa.Integer(), nullable=False, comment="Applications, of each instance that is added."),
        sa.Column("version", sa.Text(), nullable=False, comment="Of Argo CD, likewise."),
        sa.Column("profile", sa.Text(), nullable=False, comment="Configuration, likewise; empty: the usual one."),
        sa.Column("ordered_at", _TIME, nullable=False, comment="When the newest order that changed it was given."),
        sa.Column("shrinks_at", _TIME, comment="When an instance is given up, if fewer are enough until then."),
        sa.Column("leaving", sa.Text(), comment="The instance that is being given up. Null: none is."),
        sa.Column("message", sa.Text(), nullable=False, comment="Why it does not have what it needs; empty: it has."),
        sa.CheckConstraint("ring IN ('canary', 'early', 'general')", name=op.f("engine_pools_ring_check")),
        sa.CheckConstraint(
            "0 <= minimum AND minimum <= maximum AND spare >= 0", name=op.f("engine_pools_instances_check")
        ),
        sa.CheckConstraint("capacity > 0", name=op.f("engine_pools_capacity_check")),
        sa.ForeignKeyConstraint(
            ["engine_cluster"], ["engine_clusters.id"], name=op.f("engine_pools_engine_cluster_fkey")
        ),
        sa.PrimaryKeyConstraint("engine_cluster", "ring", name=op.f("engine_pools_pkey")),
        comment="Rings of engine clusters in which the planner adds and gives up instances by itself.",
    )
