"""``gitopsctl workspaces``: what each workspace cluster has of its own at the brokers and in the database."""

from __future__ import annotations

import re
from typing import LiteralString, NamedTuple

import typer
from psycopg import Connection, sql

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.kafka import topics
from services.common.errors import InvalidConfiguration
from services.common.kafka import WORKSPACE_NAME, load_acls, load_topics
from services.common.startup import await_dependency

app = typer.Typer(help="Workspace clusters.", no_args_is_help=True)

NAMES = typer.Argument(..., help="WORKSPACE of the watchers of each.")

EXISTS = "SELECT to_regclass(%s) IS NOT NULL"
IS_ATTACHED = "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(%s))"

MAKE_TABLE = """
CREATE TABLE IF NOT EXISTS {partition} (LIKE {table} INCLUDING ALL) WITH (fillfactor = 80);
GRANT SELECT ON {partition} TO gitops_replication
"""

# The rows that exist are inserted anew, so that its topic begins with every row that there is. A planner waits
# meanwhile. Rows that the new partition takes must not be in the default partition when it is attached.
MOVE_ROWS = """
SET LOCAL lock_timeout = '5s';
LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE {moved} ON COMMIT DROP AS SELECT * FROM {default} WHERE workspace = {workspace};
DELETE FROM {default} WHERE workspace = {workspace};
ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES IN ({workspace});
INSERT INTO {table} SELECT * FROM {moved}
"""


class Partitioned(NamedTuple):
    """A table that has a partition for each workspace."""

    name: str
    default: str
    """The partition of workspaces that were not added."""
    prefix: str
    """What the names of the others begin with."""

    def partition(self, workspace: str) -> sql.Identifier:
        """The partition of ``workspace``."""
        return sql.Identifier(f"{self.prefix}{workspace}")


TABLES = (
    Partitioned("workspace_statuses", "workspace_resources", "workspace_resources_"),
    Partitioned("workspace_objects", "other_workspace_objects", "workspace_objects_"),
)


# A group even while it has a single command: `gitopsctl workspaces add`.
@app.callback()
def workspaces() -> None:
    """Workspace clusters."""


@app.command()
def add(
    names: list[str] = NAMES,
    url: str = URL,
    timeout: float = TIMEOUT,
    replication_factor: int = topics.REPLICATION_FACTOR,
) -> None:
    """Give each workspace cluster topics for its statuses and child objects, and its watchers a principal for these.

    The password of the principal watcher-<NAME> is taken from KAFKA_PASSWORD_WATCHER_<NAME>. Safe to run again.
    """
    for name in names:
        if not re.fullmatch(WORKSPACE_NAME, name):
            raise InvalidConfiguration(f"'{name}' cannot be a workspace: 43 of A-Z, a-z, 0-9, '.', '_' and '-' at most")
    for name in names:
        _add(name, url, timeout, replication_factor)


def _add(name: str, url: str, timeout: float, replication_factor: int) -> None:
    """Add a workspace. The order of the steps makes a crash safe.

    1. The topics.      Crash: nothing is written to them yet.
    2. The principal.   Crash: it reads topics that are empty.
    3. The tables.      Crash: they are empty, and no partitions yet. They are committed before the rows, because
                        Connect may read these before a table of their own transaction is visible to it, and would not
                        know its key.
    4. The partitions.  From their commit on Connect writes to the topics: if there were none, it would stop for
                        everybody.
    """
    topics.make_topics(load_topics(workspace=name), timeout, replication_factor)
    topics.grant_rights(load_acls(workspace=name), timeout)
    rows = await_dependency("database", lambda: _move_rows(url, name), timeout)
    typer.echo(f"{name}: {'is known' if rows is None else f'{rows} rows moved'}")


def _move_rows(url: str, name: str) -> int | None:
    with connected(url) as connection:
        make_tables(connection, name)
    with connected(url) as connection:
        return move_rows(connection, name)


def make_tables(connection: Connection, name: str) -> None:
    """Make the tables that are to be the workspace's partitions, unless there are such."""
    for table in _existing(connection):
        statement = sql.SQL(MAKE_TABLE).format(table=sql.Identifier(table.name), partition=table.partition(name))
        connection.execute(statement)


def move_rows(connection: Connection, name: str) -> int | None:
    """Attach the workspace's tables with the rows that are its; returns how many, or None if all were attached."""
    new = [table for table in _existing(connection) if not _is_attached(connection, table, name)]
    return sum(_move(connection, table, name) for table in new) if new else None


def _existing(connection: Connection) -> list[Partitioned]:
    """The tables that there are: a database of an older revision, which is about to be restored, lacks some."""
    return [table for table in TABLES if _is(connection, EXISTS, table.name)]


def _is_attached(connection: Connection, table: Partitioned, workspace: str) -> bool:
    return _is(connection, IS_ATTACHED, table.partition(workspace).as_string(connection))


def _is(connection: Connection, query: LiteralString, name: str) -> bool:
    row = connection.execute(query, (name,)).fetchone()
    return row is not None and bool(row[0])


def _move(connection: Connection, table: Partitioned, workspace: str) -> int:
    statement = sql.SQL(MOVE_ROWS).format(
        table=sql.Identifier(table.name),
        default=sql.Identifier(table.default),
        moved=sql.Identifier(f"moved_{table.name}"),
        partition=table.partition(workspace),
        workspace=sql.Literal(workspace),
    )
    cursor = connection.execute(statement)
    while cursor.nextset():
        pass
    return cursor.rowcount
