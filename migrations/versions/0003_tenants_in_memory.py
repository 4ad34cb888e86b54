"""What lets a planner keep whole tenants in memory, and binds deployments to environments by identity.

Who owns a partition, rows that are not loaded with their tenant, times at which rows are looked at again, and tenants
that are parked.

It only adds: new columns have defaults, which PostgreSQL does not write into existing rows, and the indexes are built
beside the traffic. But stop the planners of the revision before: what they write after this has no identities.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
DUE = "When it has to be looked at again, though nothing happens."
DORMANT = "Not loaded with its tenant."
REPLACED = (
    "deployments_waiting_idx",
    "deployments_held_back_idx",
    "resources_held_back_idx",
    "resources_over_quota_idx",
    "engine_resources_holdings_idx",
)

BIND = """
UPDATE deployments d
   SET environment_id = substring(e.manifest::json #>> '{spec,destination,name}' FROM '^managed-env-(.*)$')::uuid
  FROM engine_resources e
 WHERE d.spec IS NOT NULL AND e.kind = 'Application' AND e.name = 'gitopsdepl-' || d.uid
   AND e.lane = 'app-project-' || d.tenant_id
"""
"""To the environment that the Application goes to: the row has the name in its newest spec, which may only be on offer,
and an environment that is leaving has lost its name."""


def upgrade() -> None:
    _extend_tables()
    _create_parking()
    _fill()
    op.alter_column(
        "engine_resources",
        "lane",
        existing_type=sa.Text(),
        existing_nullable=False,
        existing_comment="Name of the tenant's AppProject.",
        comment="Of the tenant: what is in one is in order.",
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON parked_tenants, parked_events TO gitops_planner")
    with op.get_context().autocommit_block():
        _rebuild_indexes()


def downgrade() -> None:
    raise NotImplementedError("events of parked tenants would be lost; restore a backup instead")


def _extend_tables() -> None:
    false = sa.text("false")
    for table, columns in (
        (
            "engine_instances",
            [sa.Column("engine", sa.Text(), nullable=False, server_default="argocd", comment="What it runs.")],
        ),
        (
            "tenants",
            [
                sa.Column(
                    "dormant", sa.Boolean(), nullable=False, server_default=false, comment="It may have dormant rows."
                )
            ],
        ),
        (
            "deployments",
            [
                sa.Column(
                    "environment_id",
                    sa.Uuid(),
                    comment="Environment that the spec goes to, whoever bears its name by now.",
                ),
                sa.Column("due_at", TIME, comment=DUE),
                sa.Column("dormant", sa.Boolean(), nullable=False, server_default=false, comment=DORMANT),
            ],
        ),
        (
            "resources",
            [
                sa.Column("due_at", TIME, comment=DUE),
                sa.Column("dormant", sa.Boolean(), nullable=False, server_default=false, comment=DORMANT),
            ],
        ),
        (
            "consumer_offsets",
            [
                sa.Column(
                    "owner", sa.Uuid(), comment="The planner that took the partition up last: nobody else may write."
                )
            ],
        ),
    ):
        for column in columns:
            op.add_column(table, column)


def _create_parking() -> None:
    op.create_table(
        "parked_tenants",
        sa.Column("tenant_id", sa.Uuid(), nullable=False, comment="No foreign key: the tenant itself may be new."),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False, comment="Type of the exception, and where it was raised."),
        sa.Column("parked_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("parked_tenants_pkey")),
        comment="Tenants on which a rule of ours failed. Tried again by each planner that takes up their partition.",
    )
    op.create_table(
        "parked_events",
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False, comment="JSON."),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["parked_tenants.tenant_id"], name=op.f("parked_events_tenant_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("parked_events_pkey")),
        comment="What has happened to parked tenants since, in its order.",
    )
    op.create_index(op.f("parked_events_tenant_id_idx"), "parked_events", ["tenant_id"])


def _fill() -> None:
    """Rows of the revision before: identities for names, times for what is waited for, runs that are over and gone."""
    op.execute(BIND)
    for table in ("deployments", "resources"):
        op.execute(f"UPDATE {table} SET due_at = now() WHERE held_back_ms >= 1000")  # noqa: S608 - two names
    op.execute(
        "UPDATE deployments SET due_at = seen_at + interval '5 s' WHERE present AND deleting AND spec IS NOT NULL"
    )
    op.execute(
        "UPDATE resources r SET dormant = true FROM sync_runs s"
        " WHERE s.resource_id = r.id AND NOT r.present AND s.state IN ('Ended', 'Refused')"
    )
    op.execute("UPDATE tenants t SET dormant = true FROM resources r WHERE r.tenant_id = t.id AND r.dormant")


def _rebuild_indexes() -> None:
    for table in ("deployments", "resources"):
        op.create_index(
            f"{table}_due_idx",
            table,
            ["due_at"],
            postgresql_where=sa.text("due_at IS NOT NULL"),
            postgresql_concurrently=True,
            if_not_exists=True,
        )
    op.create_index(
        op.f("engine_resources_lane_kind_idx"),
        "engine_resources",
        ["lane", "kind"],
        postgresql_concurrently=True,
        if_not_exists=True,
    )
    op.create_index(
        "resources_waiting_idx",
        "resources",
        ["tenant_id", "kind", "created_at", "id"],
        postgresql_where=sa.text("over_quota"),
        postgresql_concurrently=True,
        if_not_exists=True,
    )
    for name in REPLACED:
        op.drop_index(name, postgresql_concurrently=True, if_exists=True)
