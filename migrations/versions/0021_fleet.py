"""Engine instances are rows that planners decide on, by orders of operators, and they are streamed.

A planner of before reads them as it did, and decides on no order. Defaults of the table's columns go, because they
would be in the schema of what is streamed. Instances of before are in one engine cluster, `default`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

INSTANCES = "engine_instances"
CLUSTERS = "engine_clusters"
ORDERS = "fleet_orders"
COLUMNS = {
    "engine_cluster": (sa.Text(), "'default'", "Which it runs in."),
    "region": (sa.Text(), "''", "Its cluster's."),
    "engine_class": (sa.Text(), "'shared'", "Whether tenants of one workspace have it to themselves."),
    "dedicated_to": (sa.Text(), "''", "That workspace; empty if it is shared."),
    "ring": (sa.Text(), "'general'", "When it gets a new version."),
    "capacity": (sa.Integer(), "2500", "Applications."),
    "ordered_at": (
        sa.DateTime(timezone=True),
        "now()",
        "When the newest order that changed it was given: an older one changes nothing.",
    ),
}
"""With what they are of instances of before."""
STATES = "state IN ('accepting', 'full', 'draining', 'drained', 'retired')"
COMMENT = "Streamed: the fleet, as operators ordered it. A retired instance stays: its id is never given out again."
COMMENT_BEFORE = "The fleet. Written by gitopsctl engines apply; a draining instance gets no new tenants."


def upgrade() -> None:
    _make_tables()
    op.execute("INSERT INTO engine_clusters (id, region, created_at) VALUES ('default', '', now())")
    for name, (kind, value, comment) in COLUMNS.items():
        op.add_column(INSTANCES, sa.Column(name, kind, nullable=False, server_default=sa.text(value), comment=comment))
    op.execute("UPDATE engine_instances SET ordered_at = created_at")
    for name in ("engine", "state", "created_at", *COLUMNS):
        op.alter_column(INSTANCES, name, server_default=None)
    op.drop_constraint("engine_instances_state_check", INSTANCES)
    _constrain_instances()
    op.create_table_comment(INSTANCES, COMMENT)
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {CLUSTERS}, {INSTANCES}, {ORDERS} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {INSTANCES} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {INSTANCES}")


def downgrade() -> None:
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {INSTANCES}")
    op.execute("REVOKE SELECT ON engine_instances FROM gitops_replication")
    op.execute(f"REVOKE INSERT, UPDATE, DELETE ON {INSTANCES} FROM gitops_planner")
    op.execute("UPDATE engine_instances SET state = 'draining' WHERE state NOT IN ('accepting', 'draining')")
    for name in COLUMNS:
        op.drop_column(INSTANCES, name)
    op.drop_constraint("engine_instances_state_check", INSTANCES)
    op.create_check_constraint(op.f("engine_instances_state_check"), INSTANCES, "state IN ('accepting', 'draining')")
    for name, value in (("engine", "'argocd'"), ("state", "'accepting'"), ("created_at", "now()")):
        op.alter_column(INSTANCES, name, server_default=sa.text(value))
    op.create_table_comment(INSTANCES, COMMENT_BEFORE)
    op.drop_table(ORDERS)
    op.drop_table(CLUSTERS)


def _make_tables() -> None:
    op.create_table(
        CLUSTERS,
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False, comment="Empty: the installation has no regions."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("engine_clusters_pkey")),
        sa.UniqueConstraint("id", "region", name=op.f("engine_clusters_id_region_key")),
        comment="Clusters that engine instances run in.",
    )
    op.create_table(
        ORDERS,
        sa.Column("id", sa.Uuid(), nullable=False, comment="The order's own."),
        sa.Column("kind", sa.Text(), nullable=False, comment="What was ordered."),
        sa.Column("subject", sa.Text(), nullable=False, comment="Instance or cluster."),
        sa.Column("arguments", sa.Text(), nullable=False, comment="All of the order, JSON."),
        sa.Column("actor", sa.Text(), nullable=False, comment="Who ordered it, as it told."),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False, comment="Why; empty if that needs no words."),
        sa.Column("ordered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("outcome IN ('accepted', 'refused', 'unchanged')", name=op.f("fleet_orders_outcome_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("fleet_orders_pkey")),
        comment="Audit of the fleet: what operators ordered, and what became of it. Pruned after a time.",
    )


def _constrain_instances() -> None:
    for name, condition in (
        ("state", STATES),
        ("engine_class", "engine_class IN ('shared', 'dedicated')"),
        ("dedicated_to", "(engine_class = 'dedicated') = (dedicated_to <> '')"),
        ("ring", "ring IN ('canary', 'early', 'general')"),
        ("capacity", "capacity > 0"),
    ):
        op.create_check_constraint(op.f(f"engine_instances_{name}_check"), INSTANCES, condition)
    op.create_foreign_key(
        op.f("engine_instances_engine_cluster_fkey"),
        INSTANCES,
        CLUSTERS,
        ["engine_cluster", "region"],
        ["id", "region"],
    )
    op.create_index(
        "engine_instances_namespace_idx",
        INSTANCES,
        ["engine_cluster", "namespace"],
        unique=True,
        postgresql_where=sa.text("state <> 'retired'"),
    )
