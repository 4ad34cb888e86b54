"""A compiled row says which engine cluster its instance is in: the connector has a topic for each.

The column is part of the primary key, which is all that the write-ahead log tells of a deleted row. Planners of before
cannot write the table with this key: they are stopped. Of rows that are elsewhere nothing is streamed here, because a
connector of before does not know the key; `connector resend engine_resources` sends all rows to their topics.

Nor does a connector of this release know what to do with a row that was written before and has no cluster: it would
stop there. So the table changes when the connector has read all that was written to it, and not earlier.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from services.common.errors import Retry
from services.common.startup import await_dependency

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

ROWS, INSTANCES = "engine_resources", "engine_instances"
COLUMN = "engine_cluster"
IDENTITY = ["engine_instance_id", "kind", "namespace", "name"]
COMMENT = "Its instance's: the topic that it is streamed to. Of the key, so that the log tells it of a deletion."
PRIMARY_KEY = "engine_resources_pkey"
REFERRED = "engine_instances_id_engine_cluster_key"
REFERENCE = "engine_resources_engine_instance_id_fkey"
READ_SECONDS = 60.0
"""A connector that runs says at least every ten seconds how far it is."""
UNREAD = """
SELECT pg_wal_lsn_diff(CAST(:written AS pg_lsn), min(confirmed_flush_lsn))
  FROM pg_replication_slots WHERE database = current_database() AND wal_status <> 'lost'
"""


def upgrade() -> None:
    op.execute("LOCK TABLE engine_resources IN SHARE MODE")  # what is written now is all that there will be without it
    written = op.get_bind().scalar(sa.text("SELECT pg_current_wal_insert_lsn()::text"))
    await_dependency("connector", lambda: _require_read(written), READ_SECONDS)
    op.create_unique_constraint(REFERRED, INSTANCES, ["id", COLUMN])
    op.execute("ALTER PUBLICATION gitops_compiled DROP TABLE engine_resources")
    default = sa.text("'default'")  # of most, so they are not written anew
    op.add_column(ROWS, sa.Column(COLUMN, sa.Text(), nullable=False, server_default=default, comment=COMMENT))
    op.alter_column(ROWS, COLUMN, server_default=None)
    op.execute("DELETE FROM engine_resources e WHERE engine_instance_id NOT IN (SELECT id FROM engine_instances)")
    op.execute(
        "UPDATE engine_resources e SET engine_cluster = i.engine_cluster FROM engine_instances i"
        " WHERE i.id = e.engine_instance_id AND i.engine_cluster <> 'default'"
    )
    op.drop_constraint(PRIMARY_KEY, ROWS)
    op.create_primary_key(PRIMARY_KEY, ROWS, [*IDENTITY, COLUMN])
    op.create_foreign_key(REFERENCE, ROWS, INSTANCES, ["engine_instance_id", COLUMN], ["id", COLUMN])
    op.execute("ALTER PUBLICATION gitops_compiled ADD TABLE engine_resources")


def _require_read(written: str) -> None:
    """Raises Retry until the connector, where there is one, has read what was ``written``."""
    unread = op.get_bind().scalar(sa.text(UNREAD), {"written": written})
    if unread is not None and unread > 0:
        raise Retry(f"it has yet to read {unread} bytes of the write-ahead log; start it, and upgrade again")


def downgrade() -> None:
    op.drop_constraint(REFERENCE, ROWS)
    op.drop_constraint(PRIMARY_KEY, ROWS)
    op.create_primary_key(PRIMARY_KEY, ROWS, IDENTITY)
    op.drop_column(ROWS, COLUMN)
    op.drop_constraint(REFERRED, INSTANCES)
