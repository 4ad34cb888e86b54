"""The index of deployments by tenant goes: the one by tenant and name begins with the tenant."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NAME = "deployments_tenant_id_idx"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index(NAME, postgresql_concurrently=True, if_exists=True)


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.create_index(NAME, "deployments", ["tenant_id"], postgresql_concurrently=True, if_not_exists=True)
