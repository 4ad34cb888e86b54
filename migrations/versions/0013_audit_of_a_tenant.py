"""The audit is asked by tenant, and by nobody by deployment.

The new index is built beside the traffic before the old one goes. If it has to give up, it can be run again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TABLE = "audit_records"
OF_TENANT = "audit_records_workspace_namespace_created_at_idx"
OF_DEPLOYMENT = "audit_records_deployment_id_idx"
UNFINISHED = sa.text(
    "SELECT name.relname FROM pg_index i JOIN pg_class name ON name.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND name.relname = :name"
)
"""Left by a run that had to give up: it bears the name, and serves for nothing."""


def upgrade() -> None:
    _replace(OF_DEPLOYMENT, OF_TENANT, ["workspace", "namespace", "created_at"])


def downgrade() -> None:
    _replace(OF_TENANT, OF_DEPLOYMENT, ["deployment_id"])


def _replace(former: str, name: str, columns: list[str]) -> None:
    connection = op.get_bind()
    bound = connection.scalar(sa.text("SHOW statement_timeout"))
    with op.get_context().autocommit_block():
        op.execute("SET statement_timeout = 0")  # the table may be large; nobody waits for a concurrent build
        for unfinished in connection.scalars(UNFINISHED, {"name": name}).all():
            op.drop_index(unfinished)
        op.create_index(name, TABLE, columns, postgresql_concurrently=True, if_not_exists=True)
        op.drop_index(former, postgresql_concurrently=True, if_exists=True)
        op.execute(sa.text("SELECT set_config('statement_timeout', :bound, false)").bindparams(bound=bound))
