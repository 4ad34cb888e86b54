"""Alembic's environment. ``gitopsctl database`` passes the connection in; nothing here reads the process's."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from services.planner.database.tables import metadata

# A migration waits for a lock no longer than the service can do without the table, and then gives up whole.
LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "120s"

connection = context.config.attributes["connection"]
connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
connection.commit()

context.configure(connection=connection, target_metadata=metadata, compare_type=True, compare_server_default=True)
with context.begin_transaction():
    context.run_migrations()
