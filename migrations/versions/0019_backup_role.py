"""A role of its own reads all tables, those that are made later included, and writes none: for backups.

compose/postgres/init.sql of this release makes it, and is run before. pg_read_all_data would do, but lets read
passwords of roles, too.
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("GRANT USAGE ON SCHEMA public TO gitops_backup")
    op.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO gitops_backup")
    op.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO gitops_backup")


def downgrade() -> None:
    op.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM gitops_backup")
    op.execute("REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM gitops_backup")
    op.execute("REVOKE USAGE ON SCHEMA public FROM gitops_backup")
