"""Databases of tests, emptied and used again.

A database is some hundreds of files, and to make and drop them takes longer than most tests do; to empty the few tables
that a test has written to does not. No test notices another: each has a name of its own, so that what one leaves
running finds nothing to write to, and a database in which more than rows has changed is dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

TERMINATION_MILLISECONDS = 30_000
"""Until a connection that is told to end has ended, on a busy machine, too."""
MOST_BYTES = 1_000_000
"""Of a table's files. Rows that are deleted stay in it, and make the next test slower, until it is vacuumed."""
CATALOGS = (
    "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension", "pg_namespace",
    "pg_policy", "pg_proc", "pg_publication", "pg_publication_rel", "pg_rewrite", "pg_trigger",
)  # fmt: skip
NEWEST = "SELECT count(*), max(xmin::text::bigint) FROM {}"
"""What is added to a catalog or altered in it is newer than all else, and what is removed is missing."""
SETTINGS = """
SELECT datacl::text, (SELECT array_agg(setrole || setconfig::text ORDER BY setrole) FROM pg_db_role_setting
                       WHERE setdatabase = pg_database.oid)
  FROM pg_database WHERE datname = current_database()
"""
STATISTICS = """
SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname
"""
"""By what was vacuumed or analyzed queries are planned otherwise."""
WRITTEN = """
SELECT relname, pg_table_size(oid) FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
"""
COUNTED_ANEW = "SELECT setval(seqrelid, seqstart, false) FROM pg_sequence"

Connection = psycopg.Connection[Any]
Schema = list[tuple[Any, ...]]
"""Differs from what it was if anything but rows has."""


class Databases:
    """Copies of a template; one that is given back is the next to be taken."""

    def __init__(self, admin: Connection, template: str) -> None:
        """``admin`` is a superuser's, who alone may create databases."""
        self._admin = admin
        self._template = template
        with inside(admin, template) as connection:
            self._schema = schema_of(connection)
            self._rows = {table: copied(connection, table) for table in written(connection)}
        self._spares: list[str] = []

    @contextmanager
    def taken(self) -> Iterator[str]:
        """Name of one that holds what the template does; it is nobody else's while the block runs."""
        name = new_name()
        if self._spares:
            rename(self._admin, self._spares.pop(), name)
        else:
            create(self._admin, name, self._template)
        try:
            yield name
        finally:
            self._give_back(name)

    def _give_back(self, name: str) -> None:
        spare = new_name()
        close(self._admin, name)
        rename(self._admin, name, spare)
        with inside(self._admin, spare) as connection:
            is_as_new = schema_of(connection) == self._schema and self._refilled(connection)
        if is_as_new:
            self._spares.append(spare)
        else:
            drop(self._admin, spare)

    def _refilled(self, connection: Connection) -> bool:
        """Whether it holds what the template does again; not if a table is too large."""
        tables = written(connection)
        if max(tables.values(), default=0) > MOST_BYTES:
            return False
        empty(connection, tables)
        fill(connection, self._rows)
        return True

    def drop(self) -> None:
        """Those that nobody uses."""
        while self._spares:
            drop(self._admin, self._spares.pop())


@contextmanager
def fresh_database(admin: Connection) -> Iterator[str]:
    """Name of an empty one that exists while the block runs."""
    name = new_name()
    create(admin, name)
    try:
        yield name
    finally:
        drop(admin, name)


def in_database(url: str, name: str) -> str:
    """``url``, of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def new_name() -> str:
    return f"test_{uuid.uuid4().hex[:12]}"


def create(admin: Connection, name: str, template: str = "template1") -> None:
    statement = sql.SQL("CREATE DATABASE {} OWNER gitops_owner TEMPLATE {}")
    admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


def drop(admin: Connection, name: str) -> None:
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def close(admin: Connection, name: str) -> None:
    """Let nobody in, and end the connections that there are."""
    admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
    ended = "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s"
    admin.execute(ended, (TERMINATION_MILLISECONDS, name))


def rename(admin: Connection, old: str, new: str) -> None:
    """Of a closed one, or one that nobody knows: nobody may be in it. The new one is open."""
    admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(old), sql.Identifier(new)))
    admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(sql.Identifier(new)))


@contextmanager
def inside(admin: Connection, database: str) -> Iterator[Connection]:
    """The same user's connection to another database, by whose rows no trigger is set off."""
    options = "-c session_replication_role=replica"
    parameters = admin.info.get_parameters() | {"dbname": database, "password": admin.info.password}
    with psycopg.connect(**parameters, options=options, autocommit=True) as connection:
        yield connection


def schema_of(connection: Connection) -> Schema:
    """Also who may do what there, with which settings, and what statistics say."""
    newest = sql.SQL(" UNION ALL ").join(sql.SQL(NEWEST).format(sql.Identifier(name)) for name in CATALOGS)
    return [row for query in (newest, SETTINGS, STATISTICS) for row in connection.execute(query)]


def written(connection: Connection) -> Mapping[str, int]:
    """Tables that hold rows, or have, and the bytes of their files."""
    return dict(connection.execute(WRITTEN).fetchall())


def empty(connection: Connection, tables: Mapping[str, int]) -> None:
    """Take all rows out, and count anew. To truncate a table would take longer: it makes files."""
    for table in tables:
        connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    connection.execute(COUNTED_ANEW)


def copied(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
        return b"".join(map(bytes, copy))


def fill(connection: Connection, rows: Mapping[str, bytes]) -> None:
    for table, content in rows.items():
        with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
            copy.write(content)
