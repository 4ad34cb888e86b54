"""Agents say whether a failure is told to users. Stop the planners of the revision before: they do not know the column.

And comments speak of what deployments become, whichever engine it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMN_COMMENTS = (
    (
        "engine_instances",
        "namespace",
        "Where this instance watches its Applications.",
        "Where the objects of this instance are.",
    ),
    (
        "deployments",
        "id",
        "uuid5 of workspace/uid; label databaseID of the Application.",
        "uuid5 of workspace/uid; a label of what it becomes.",
    ),
    (
        "deployments",
        "spec",
        "The spec that the Application was compiled from; null: there is no Application.",
        "The spec that its manifest was compiled from; null: there is none.",
    ),
    (
        "deployments",
        "repository",
        "Normalised repository of that spec, for the tenant's AppProject.",
        "Normalised repository of that spec, for what confines the tenant.",
    ),
    ("deployments", "digest", "Of the Application's manifest as compiled last.", "Of its manifest as compiled last."),
    (
        "observed_states",
        "status",
        "The parts of the Application's status that a CR's status shows.",
        "The parts of the engine's status that a CR's status shows.",
    ),
    (
        "observed_states",
        "resource_version",
        "Of the Application when it had that status.",
        "Of the engine's object when it had that status.",
    ),
)
TABLE_COMMENTS = (
    (
        "deployments",
        "One row per incarnation of a GitOpsDeployment, until both it and its Application are gone.",
        "One row per incarnation of a GitOpsDeployment, until both it and what it became are gone.",
    ),
    (
        "observed_states",
        "What agents reported about an Application.",
        "What agents reported about what a deployment became.",
    ),
)


def upgrade() -> None:
    op.add_column(
        "observed_states",
        sa.Column(
            "failure_for_user",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="Users are told; or operators.",
        ),
    )
    # As it was told apart until now.
    op.execute("UPDATE observed_states SET failure_for_user = true WHERE failure LIKE 'spec.source.repoURL %'")
    for table, column, before, now in COLUMN_COMMENTS:
        op.alter_column(table, column, comment=now, existing_comment=before)
    for table, before, now in TABLE_COMMENTS:
        op.create_table_comment(table, now, existing_comment=before)


def downgrade() -> None:
    for table, before, now in TABLE_COMMENTS:
        op.create_table_comment(table, before, existing_comment=now)
    for table, column, before, now in COLUMN_COMMENTS:
        op.alter_column(table, column, comment=before, existing_comment=now)
    op.drop_column("observed_states", "failure_for_user")
