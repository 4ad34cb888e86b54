"""Alembic's environment. ``gitopsctl database`` passes the connection in; nothing here reads the process's."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import text

from services.planner.database.tables.metadata import METADATA

# A migration waits for a lock no longer than the service can do without the table, and then gives up whole.
LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "120s"

connection = context.config.attributes["connection"]
connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
connection.commit()

# Declared is the partitioned table; which partitions there are is up to operators.
partitions = set(connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'")))
connection.commit()


def is_declared(name: str | None, kind: str, _: Any) -> bool:
    """Whether METADATA says how it shall be."""
    return kind != "table" or name not in partitions


context.configure(
    connection=connection,
    target_metadata=METADATA,
    include_name=is_declared,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
