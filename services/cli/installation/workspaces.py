"""``gitopsctl workspaces``: what each workspace cluster has of its own at the brokers and in the database."""

from __future__ import annotations

import re

import typer
from psycopg import Connection, sql

from services.cli.kafka import topics
from services.cli.owner_connection import TIMEOUT, URL, connected
from services.common.errors import InvalidConfiguration
from services.common.kafka import WORKSPACE_NAME, load_acls, load_topics
from services.common.startup import await_dependency

app = typer.Typer(help="Workspace clusters.", no_args_is_help=True)

NAMES = typer.Argument(..., help="WORKSPACE of the watchers of each.")

IS_ATTACHED = "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(%s))"

MAKE_TABLE = """
CREATE TABLE IF NOT EXISTS {partition} (LIKE workspace_statuses INCLUDING ALL) WITH (fillfactor = 80);
GRANT SELECT ON {partition} TO gitops_replication
"""

# The rows that exist are inserted anew, so that its topic begins with every status that there is. A planner waits
# meanwhile. Rows that the new partition takes must not be in the default partition when it is attached.
MOVE_ROWS = """
SET LOCAL lock_timeout = '5s';
LOCK TABLE workspace_statuses IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE moved ON COMMIT DROP AS SELECT * FROM workspace_resources WHERE workspace = {workspace};
DELETE FROM workspace_resources WHERE workspace = {workspace};
ALTER TABLE workspace_statuses ATTACH PARTITION {partition} FOR VALUES IN ({workspace});
INSERT INTO workspace_statuses SELECT * FROM moved
"""


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
    """Give each workspace cluster a topic for its statuses, and its watchers a principal that reads no other.

    The password of the principal watcher-<NAME> is taken from KAFKA_PASSWORD_WATCHER_<NAME>. Safe to run again.
    """
    for name in names:
        if not re.fullmatch(WORKSPACE_NAME, name):
            raise InvalidConfiguration(f"'{name}' cannot be a workspace: 43 of A-Z, a-z, 0-9, '.', '_' and '-' at most")
    for name in names:
        _add(name, url, timeout, replication_factor)


def _add(name: str, url: str, timeout: float, replication_factor: int) -> None:
    """Numbered, because the order is safety.

    1. The topic.       Crash: nothing is written to it yet.
    2. The principal.   Crash: it reads a topic that is empty.
    3. The table.       Crash: it is empty, and no partition yet. It is committed before the rows, because Connect may
                        read them before a table of their own transaction is visible to it, and would not know its key.
    4. The partition.   From its commit on Connect writes to the topic: if there were none, it would stop for everybody.
    """
    topics.make_topics(load_topics(workspace=name), timeout, replication_factor)
    topics.grant_rights(load_acls(workspace=name), timeout)
    rows = await_dependency("database", lambda: _move_rows(url, name), timeout)
    typer.echo(f"{name}: {'is known' if rows is None else f'{rows} statuses moved'}")


def _move_rows(url: str, name: str) -> int | None:
    with connected(url) as connection:
        make_table(connection, name)
    with connected(url) as connection:
        return move_rows(connection, name)


def make_table(connection: Connection, name: str) -> None:
    """Make the table that is to be the workspace's partition, unless there is one."""
    connection.execute(sql.SQL(MAKE_TABLE).format(partition=_partition(name)))


def move_rows(connection: Connection, name: str) -> int | None:
    """Attach the workspace's table with the rows that are its; returns how many, or None if it was attached already."""
    row = connection.execute(IS_ATTACHED, (_partition(name).as_string(connection),)).fetchone()
    if row is not None and row[0]:
        return None
    cursor = connection.execute(sql.SQL(MOVE_ROWS).format(partition=_partition(name), workspace=sql.Literal(name)))
    while cursor.nextset():
        pass
    return cursor.rowcount


def _partition(workspace: str) -> sql.Identifier:
    return sql.Identifier(f"workspace_resources_{workspace}")
