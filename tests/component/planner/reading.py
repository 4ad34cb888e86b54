"""How much a batch reads, as PostgreSQL counts it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from services.planner.database.session import DatabaseSession
from tests.component.conftest import Database

READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
"""


def rows_read(database: Database, session: DatabaseSession, batch: Callable[[], object]) -> int:
    """Rows and entries of indexes that ``batch`` reads, without those of versions that are nobody's any more."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute("VACUUM")
    before = _total(session)
    batch()
    return _total(session) - before


def _total(session: DatabaseSession) -> int:
    with session.connection() as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("SELECT 1")
        row = connection.execute(READ).fetchone()
    assert row is not None
    return int(row[0])
