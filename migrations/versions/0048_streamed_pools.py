"""Engine clusters and pools are streamed: a rebuild fills an empty database with them.

Planners and gitops_reader may see whether a rebuild is under way.

A planner of before goes on. Rows of before are on the topic once 'gitopsctl connector resend' has sent them, or once
they change. A cluster's columns lose their defaults, which would be in the schema of the stream: planners since
revision 0028 give each a value.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

CLUSTERS, POOLS = "engine_clusters", "engine_pools"
STREAMED = f"{CLUSTERS}, {POOLS}"
REBUILD = "rebuild_positions"
READERS = "gitops_planner, gitops_reader"
CLUSTERS_BEFORE = "Clusters that engine instances run in. A retired one stays: its id is never given out again."
POOLS_BEFORE = "Rings of engine clusters in which the planner adds and gives up instances by itself."


def upgrade() -> None:
    op.alter_column(CLUSTERS, "state", server_default=None)
    op.alter_column(CLUSTERS, "ordered_at", server_default=None)
    op.create_table_comment(CLUSTERS, f"Streamed: {CLUSTERS_BEFORE[0].lower()}{CLUSTERS_BEFORE[1:]}")
    op.create_table_comment(POOLS, f"Streamed: {POOLS_BEFORE[0].lower()}{POOLS_BEFORE[1:]}")
    op.execute(f"GRANT SELECT ON {STREAMED} TO gitops_replication")
    op.execute(f"ALTER PUBLICATION gitops_compiled ADD TABLE {STREAMED}")
    op.execute(f"GRANT SELECT ON {REBUILD} TO {READERS}")


def downgrade() -> None:
    op.execute(f"REVOKE ALL ON {REBUILD} FROM {READERS}")
    op.execute(f"ALTER PUBLICATION gitops_compiled DROP TABLE {STREAMED}")
    op.execute(f"REVOKE ALL ON {STREAMED} FROM gitops_replication")
    op.create_table_comment(POOLS, POOLS_BEFORE)
    op.create_table_comment(CLUSTERS, CLUSTERS_BEFORE)
    op.alter_column(CLUSTERS, "ordered_at", server_default=sa.text("now()"))
    op.alter_column(CLUSTERS, "state", server_default="active")
