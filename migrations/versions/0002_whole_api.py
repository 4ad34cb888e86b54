"""The other kinds of CR and the Secrets they name, what became of them, and what a tenant may have.

Safe while the planner of the revision before runs: it only adds. New columns have defaults, which PostgreSQL does not
write into existing rows; the indexes are built beside the traffic.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NEVER_DELETED = ("checks", "sync_runs")
"""By the planner itself: these rows go with the resource that they are about."""
ROOM_FOR_UPDATES = {"fillfactor": "80"}


def upgrade() -> None:
    _create_resources()
    _create_checks()
    _create_sync_runs()
    _extend_deployments()
    _correct_comments()
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON resources TO gitops_planner")
    op.execute(f"GRANT SELECT, INSERT, UPDATE ON {', '.join(NEVER_DELETED)} TO gitops_planner")
    op.execute("REVOKE DELETE ON consumer_offsets FROM gitops_planner")
    with op.get_context().autocommit_block():
        for name, table, columns, rows in (
            ("deployments_over_quota_idx", "deployments", ["tenant_id", "seen_at", "id"], "over_quota"),
            ("deployments_held_back_idx", "deployments", ["seen_at"], "held_back_ms >= 1000"),
            ("engine_resources_holdings_idx", "engine_resources", ["lane"], "kind <> 'Application'"),
        ):
            op.create_index(
                name,
                table,
                columns,
                postgresql_where=sa.text(rows),
                postgresql_concurrently=True,
                if_not_exists=True,
            )


def downgrade() -> None:
    raise NotImplementedError("what users asked for would be lost; restore a backup instead")


def _correct_comments() -> None:
    for column, comment, before in (
        (
            "deployment_id",
            "The CR's; no foreign key: the audit outlives it.",
            "No foreign key: the audit outlives what it tells of.",
        ),
        ("id", "uuid5 of the CR and its generation, or its deletion.", "uuid5 of deployment, action and generation."),
    ):
        op.alter_column(
            "operations",
            column,
            comment=comment,
            existing_comment=before,
            existing_type=sa.Uuid(),
            existing_nullable=False,
        )


def _create_resources() -> None:
    op.create_table(
        "resources",
        sa.Column("id", sa.Uuid(), nullable=False, comment="uuid5 of workspace/uid."),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
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
        sa.Column("present", sa.Boolean(), nullable=False, comment="It exists."),
        sa.Column("deleting", sa.Boolean(), nullable=False, comment="It has a deletion timestamp."),
        sa.Column("finalizer", sa.Boolean(), nullable=False, comment="It waits for us with its finalizer."),
        sa.Column(
            "spec", sa.Text(), nullable=False, comment="As written; of a Secret its type and its sealed content."
        ),
        sa.Column("omitted", sa.Text(), nullable=False, comment="Why the spec was left out; empty: it is there."),
        sa.Column("refers_to", sa.Text(), nullable=False, comment="Secret or GitOpsDeployment that it names."),
        sa.Column(
            "secret_type", sa.Text(), nullable=False, comment="Type of that Secret, as found at the last change."
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False, comment="Milliseconds since 1970."),
        sa.Column(
            "target_uid", sa.Text(), nullable=False, comment="Of the deployment that a sync run names, at first sight."
        ),
        sa.Column("target_generation", sa.BigInteger(), nullable=False, comment="Its generation then."),
        sa.Column("accepted", sa.Text(), nullable=False, comment="Spec that counts, JSON; empty: none yet."),
        sa.Column("refusal", sa.Text(), nullable=False, comment="What is wrong with it, JSON; empty: nothing."),
        sa.Column("over_quota", sa.Boolean(), nullable=False, comment="Its tenant has too many of its kind."),
        sa.Column("held_back_ms", sa.BigInteger(), nullable=False, comment="By the watcher: newest change."),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), nullable=False, comment="When the watcher saw the newest change."
        ),
        sa.Column("trace_id", sa.Text(), nullable=False, comment="traceparent of that change."),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("resources_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("resources_pkey")),
        comment="One row per incarnation of any other CR, and of the Secrets they name.",
        postgresql_with=ROOM_FOR_UPDATES,
    )
    op.create_index(op.f("resources_tenant_id_kind_name_idx"), "resources", ["tenant_id", "kind", "name"])
    for name, columns, rows in (
        ("resources_over_quota_idx", ["tenant_id", "created_at", "id"], "over_quota"),
        ("resources_gone_idx", ["seen_at"], "NOT present"),
        ("resources_held_back_idx", ["seen_at"], "held_back_ms >= 1000"),
    ):
        op.create_index(name, "resources", columns, postgresql_where=sa.text(rows))


def _create_checks() -> None:
    op.create_table(
        "checks",
        sa.Column("resource_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, comment="Of the compiled manifest that was tried."),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column(
            "worked",
            sa.Text(),
            nullable=False,
            comment="Spec with which credentials last worked, JSON; empty: never.",
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"], ["resources.id"], name=op.f("checks_resource_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("resource_id", name=op.f("checks_pkey")),
        comment="What agents found when they tried a resource's credentials.",
        postgresql_with=ROOM_FOR_UPDATES,
    )


def _create_sync_runs() -> None:
    op.create_table(
        "sync_runs",
        sa.Column("resource_id", sa.Uuid(), nullable=False),
        sa.Column("deployment_name", sa.Text(), nullable=False, comment="As first seen: immutable."),
        sa.Column("revision", sa.Text(), nullable=False, comment="As first seen; empty: what the deployment tracks."),
        sa.Column(
            "first_version",
            sa.BigInteger(),
            nullable=False,
            comment="Resource version at first sight: orders one second.",
        ),
        sa.Column(
            "deployment_id",
            sa.Uuid(),
            nullable=True,
            comment="Started for; no foreign key: the run outlives its deployment.",
        ),
        sa.Column("sequence", sa.BigInteger(), nullable=False, comment="Among the deployment's syncs; 0: not started."),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False, comment="The engine's."),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("synced_revision", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state IN ('Waiting', 'Running', 'Terminating', 'Ended', 'Refused')", name=op.f("sync_runs_state_check")
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"], ["resources.id"], name=op.f("sync_runs_resource_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("resource_id", name=op.f("sync_runs_pkey")),
        comment="How far a GitOpsDeploymentSyncRun has come. It runs once: what has ended never starts again.",
        postgresql_with=ROOM_FOR_UPDATES,
    )


def _extend_deployments() -> None:
    for column in (
        sa.Column(
            "offered", sa.Text(), comment="A newer, well-formed spec that waits for its environment or for room."
        ),
        sa.Column("environment", sa.Text(), comment="Environment that the newest of the two specs names."),
        sa.Column(
            "blocked",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="Why a well-formed spec cannot be had.",
        ),
        sa.Column(
            "over_quota",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="Waits for room in its tenant.",
        ),
        sa.Column(
            "held_back_ms",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="By the watcher: newest change.",
        ),
        sa.Column(
            "sync_sequence",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="Of the newest sync started.",
        ),
    ):
        op.add_column("deployments", column)
