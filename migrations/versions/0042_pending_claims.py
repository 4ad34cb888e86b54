"""Claims that wait for services of others have rows of their own, which are streamed.

A planner of before goes on, and writes none. Those of claims that wait already come with the next change of their
tenant, or with ``gitopsctl look-again``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

TABLE = "pending_claims"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("provisioner", sa.Text(), nullable=False, comment="As the class names it."),
        sa.Column("parameters", sa.Text(), nullable=False, comment="Of the class, canonical JSON."),
        sa.Column("generation", sa.BigInteger(), nullable=False, comment="Of the claim."),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="Of the claim."),
        sa.CheckConstraint("state IN ('wanted', 'withdrawn')", name=op.f("pending_claims_state_check")),
        sa.PrimaryKeyConstraint("workspace", "namespace", "name", "uid", name=op.f("pending_claims_pkey")),
        comment="Streamed: DeploymentTargetClaims for which services of others shall make targets, or shall no longer.",
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO gitops_planner")
    op.execute(f"GRANT SELECT ON {TABLE} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {TABLE}")


def downgrade() -> None:
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {TABLE}")
    op.drop_table(TABLE)
