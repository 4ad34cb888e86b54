"""A name may have had several tenants: one is current, the others are former ones, until nothing of them is left.

Tenants of before keep their ids. It only adds, and the indexes are built beside the traffic; the constraint goes once
the index that takes its place is there. If it has to give up, it can be run again. But stop the planners of the
revision before: they would make tenants under the ids of names alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NAME = ["workspace", "namespace"]
ID = "uuid5 of workspace/namespace, and the namespace's uid if told."
ID_BEFORE = "uuid5 of workspace/namespace."
TENANT = "A tenant is a namespace of a workspace, until it is deleted. It lives on one engine instance."
TENANT_BEFORE = "A tenant is a namespace of a workspace. It lives on one engine instance."
INDEXES = ["tenants_workspace_namespace_idx", "parked_tenants_workspace_namespace_idx", "tenants_current_idx"]
UNFINISHED = sa.text(
    "SELECT name.relname FROM pg_index i JOIN pg_class name ON name.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND name.relname = ANY(:names)"
)
"""Left by a run that had to give up: they bear the name, and serve for nothing."""


def upgrade() -> None:
    op.add_column(
        "tenants",
        sa.Column(
            "former_since",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="When the namespace was made that has its name now, milliseconds since 1970; 0: none has.",
        ),
        if_not_exists=True,
    )
    op.alter_column(
        "tenants", "id", existing_type=sa.Uuid(), existing_nullable=False, existing_comment=ID_BEFORE, comment=ID
    )
    op.create_table_comment("tenants", TENANT, existing_comment=TENANT_BEFORE)
    with op.get_context().autocommit_block():
        for name in op.get_bind().scalars(UNFINISHED, {"names": INDEXES}).all():
            op.drop_index(name)
        for table in ("tenants", "parked_tenants"):
            op.create_index(
                f"{table}_workspace_namespace_idx", table, NAME, postgresql_concurrently=True, if_not_exists=True
            )
        op.create_index(
            "tenants_current_idx",
            "tenants",
            NAME,
            unique=True,
            postgresql_where=sa.text("former_since = 0"),
            postgresql_concurrently=True,
            if_not_exists=True,
        )
        op.execute("ALTER TABLE tenants DROP CONSTRAINT IF EXISTS tenants_workspace_namespace_key")


def downgrade() -> None:
    raise NotImplementedError("a name would have several tenants; restore a backup instead")
