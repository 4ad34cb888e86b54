"""All tables, what each role may do with them, and the publication that Debezium streams.

Roles exist before (compose/postgres/init.sql): a role belongs to the server, not to one database.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PLANNER_WRITES = (
    "tenants",
    "deployments",
    "observed_states",
    "operations",
    "consumer_offsets",
    "engine_resources",
    "workspace_resources",
)
PLANNER_READS = ("engine_instances", "alembic_version")
STREAMED = ("engine_resources", "workspace_resources", "debezium_signals", "debezium_heartbeat")


def upgrade() -> None:
    _create_tables()
    _grant()
    # publish_via_partition_root and row filters are left out on purpose: every change of these four is streamed.
    op.execute(f"CREATE PUBLICATION gitops_compiled FOR TABLE {', '.join(STREAMED)}")


def downgrade() -> None:
    raise NotImplementedError("the first revision has no predecessor; restore a backup instead")


def _grant() -> None:
    op.execute("GRANT USAGE ON SCHEMA public TO gitops_planner, gitops_replication")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(PLANNER_WRITES)} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {', '.join(PLANNER_READS)} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {', '.join(STREAMED)} TO gitops_replication")
    # Watermarks of incremental snapshots are inserted and, with one of the two strategies, deleted again.
    op.execute("GRANT INSERT, DELETE ON debezium_signals TO gitops_replication")
    op.execute("GRANT INSERT, UPDATE ON debezium_heartbeat TO gitops_replication")


def _create_tables() -> None:
    op.create_table(
        "consumer_offsets",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column(
            "next_offset", sa.BigInteger(), nullable=False, comment="The first message whose effect is not in here."
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("consumer_offsets_pkey")),
        comment="Written in the transaction of the effects: what makes them happen exactly once.",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "debezium_heartbeat",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("debezium_heartbeat_pkey")),
        comment="Moved by the connector, so that its replication slot advances while the streamed tables rest.",
    )
    op.create_table(
        "debezium_signals",
        sa.Column("id", sa.String(length=42), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("data", sa.String(length=2048), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("debezium_signals_pkey")),
        comment="Orders to the connector, such as a new snapshot.",
    )
    op.create_table(
        "engine_instances",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False, comment="Where this instance watches its Applications."),
        sa.Column("state", sa.Text(), server_default="accepting", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("state IN ('accepting', 'draining')", name=op.f("engine_instances_state_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("engine_instances_pkey")),
        comment="The fleet. Written by gitopsctl engines apply; a draining instance gets no new tenants.",
    )
    op.create_table(
        "engine_resources",
        sa.Column("engine_instance_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("tenant_namespace", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False, comment="Name of the tenant's AppProject."),
        sa.Column(
            "wave", sa.SmallInteger(), nullable=False, comment="Within a lane lower ones first; deletions in reverse."
        ),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False, comment="The full object, canonical JSON."),
        sa.Column("digest", sa.Text(), nullable=False, comment="SHA-256 of the manifest, hexadecimal."),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("desired IN ('present', 'absent')", name=op.f("engine_resources_desired_check")),
        sa.PrimaryKeyConstraint("engine_instance_id", "kind", "namespace", "name", name=op.f("engine_resources_pkey")),
        comment="Streamed: the objects that engine instances shall hold, or shall no longer hold.",
        postgresql_with={"fillfactor": "80"},
    )
    op.create_table(
        "operations",
        sa.Column("id", sa.Uuid(), nullable=False, comment="uuid5 of deployment, action and generation."),
        sa.Column(
            "deployment_id", sa.Uuid(), nullable=False, comment="No foreign key: the audit outlives what it tells of."
        ),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False, comment="Field manager of the change; empty if unknown."),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When the watcher saw the change."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("action IN ('create', 'update', 'delete')", name=op.f("operations_action_check")),
        sa.CheckConstraint("state IN ('Waiting', 'Completed', 'Failed')", name=op.f("operations_state_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("operations_pkey")),
        comment="Audit: who changed what, and what became of it. Pruned after a time.",
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(
        op.f("operations_created_at_idx"),
        "operations",
        ["created_at"],
        unique=False,
        postgresql_using="brin",
        postgresql_with={"pages_per_range": "32"},
    )
    op.create_index(op.f("operations_deployment_id_idx"), "operations", ["deployment_id"], unique=False)
    op.create_table(
        "workspace_resources",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, comment="The CR's whole status, canonical JSON."),
        sa.Column(
            "release_finalizer", sa.Boolean(), nullable=False, comment="Nothing is left that the CR has to wait for."
        ),
        sa.Column("digest", sa.Text(), nullable=False, comment="SHA-256 of the status, hexadecimal."),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "namespace", "kind", "name", name=op.f("workspace_resources_pkey")),
        comment="Streamed: the status that CRs shall show.",
        postgresql_with={"fillfactor": "80"},
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Uuid(), nullable=False, comment="uuid5 of workspace/namespace."),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column(
            "partition", sa.Integer(), nullable=False, comment="Of gitops.commands: the scope of a resync marker."
        ),
        sa.Column("engine_instance_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["engine_instance_id"], ["engine_instances.id"], name=op.f("tenants_engine_instance_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("tenants_pkey")),
        sa.UniqueConstraint("workspace", "namespace", name=op.f("tenants_workspace_namespace_key")),
        comment="A tenant is a namespace of a workspace. It lives on one engine instance.",
    )
    op.create_index(op.f("tenants_partition_idx"), "tenants", ["partition"], unique=False)
    op.create_table(
        "deployments",
        sa.Column(
            "id", sa.Uuid(), nullable=False, comment="uuid5 of workspace/uid; label databaseID of the Application."
        ),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column(
            "source", sa.Text(), nullable=False, comment="The watched cluster it was seen in: the scope of a resync."
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column(
            "resource_version", sa.Text(), nullable=False, comment="Newest seen; an older event changes nothing."
        ),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False, comment="Newest resync during which it was seen."),
        sa.Column("present", sa.Boolean(), nullable=False, comment="The CR exists."),
        sa.Column("deleting", sa.Boolean(), nullable=False, comment="The CR has a deletion timestamp."),
        sa.Column("finalizer", sa.Boolean(), nullable=False, comment="The CR waits for us with its finalizer."),
        sa.Column(
            "spec",
            sa.Text(),
            nullable=True,
            comment="The spec that the Application was compiled from; null: there is no Application.",
        ),
        sa.Column(
            "repository",
            sa.Text(),
            nullable=True,
            comment="Normalised repository of that spec, for the tenant's AppProject.",
        ),
        sa.Column("digest", sa.Text(), nullable=True, comment="Of the Application's manifest as compiled last."),
        sa.Column("error", sa.Text(), nullable=False, comment="What is wrong with the newest spec; empty: nothing."),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the watcher saw the newest change of the CR.",
        ),
        sa.Column("trace_id", sa.Text(), nullable=False, comment="traceparent of that change."),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("deployments_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("deployments_pkey")),
        comment="One row per incarnation of a GitOpsDeployment, until both it and its Application are gone.",
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(op.f("deployments_tenant_id_name_idx"), "deployments", ["tenant_id", "name"], unique=False)
    op.create_index(op.f("deployments_tenant_id_idx"), "deployments", ["tenant_id"], unique=False)
    op.create_index(
        "deployments_waiting_idx",
        "deployments",
        ["seen_at"],
        unique=False,
        postgresql_where=sa.text("present AND deleting"),
    )
    op.create_table(
        "observed_states",
        sa.Column("deployment_id", sa.Uuid(), nullable=False),
        sa.Column(
            "status",
            sa.Text(),
            nullable=False,
            comment="The parts of the Application's status that a CR's status shows.",
        ),
        sa.Column("resource_version", sa.Text(), nullable=False, comment="Of the Application when it had that status."),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "applied_digest", sa.Text(), nullable=False, comment="Manifest the engine was last seen to hold; or empty."
        ),
        sa.Column("failed_digest", sa.Text(), nullable=False, comment="Manifest the engine last refused; or empty."),
        sa.Column("failure", sa.Text(), nullable=False, comment="Why."),
        sa.Column(
            "status_generation", sa.BigInteger(), nullable=False, comment="Newest generation whose status went out."
        ),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name=op.f("observed_states_deployment_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("deployment_id", name=op.f("observed_states_pkey")),
        comment="What agents reported about an Application.",
        postgresql_with={"fillfactor": "80"},
    )
