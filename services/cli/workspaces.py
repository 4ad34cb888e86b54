"""``gitopsctl workspaces``: what each workspace cluster has of its own at the brokers and in the database."""

from __future__ import annotations

import re

import typer
from psycopg import Connection, sql

from services.cli import topics
from services.cli.owner_connection import TIMEOUT, URL, connected
from services.common.errors import InvalidConfiguration
from services.common.kafka import WORKSPACE_NAME, load_acls, load_topics
from services.common.startup import await_dependency

app = typer.Typer(help="Workspace clusters.", no_args_is_help=True)

NAMES = typer.Argument(..., help="WORKSPACE of the watchers of each.")

IS_KNOWN = "SELECT to_regclass(%s) IS NOT NULL"

# The rows that exist are inserted anew, so that its topic begins with every status that there is. A planner waits
# meanwhile. Rows that the new partition takes must not be in the default partition when it is made.
ADD_PARTITION = """
SET LOCAL lock_timeout = '5s';
LOCK TABLE workspace_statuses IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE moved ON COMMIT DROP AS SELECT * FROM workspace_resources WHERE workspace = {workspace};
DELETE FROM workspace_resources WHERE workspace = {workspace};
CREATE TABLE {partition} PARTITION OF workspace_statuses FOR VALUES IN ({workspace}) WITH (fillfactor = 80);
GRANT SELECT ON {partition} TO gitops_replication;
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
    3. The partition.   From its commit on Connect writes to the topic: if there were none, it would stop for everybody.
    """
    topics.make_topics(load_topics(workspace=name), timeout, replication_factor)
    topics.grant_rights(load_acls(workspace=name), timeout)
    rows = await_dependency("database", lambda: _move_rows(url, name), timeout)
    typer.echo(f"{name}: {'is known' if rows is None else f'{rows} statuses moved'}")


def _move_rows(url: str, name: str) -> int | None:
    with connected(url) as connection:
        return add_partition(connection, name)


def add_partition(connection: Connection, name: str) -> int | None:
    """Move the workspace's rows to a partition of their own; returns how many, or None if there is one already."""
    partition = sql.Identifier(f"workspace_resources_{name}")
    if _is_known(connection, partition):
        return None
    statements = sql.SQL(ADD_PARTITION).format(partition=partition, workspace=sql.Literal(name))
    cursor = connection.execute(statements)
    while cursor.nextset():
        pass
    return cursor.rowcount


def _is_known(connection: Connection, partition: sql.Identifier) -> bool:
    row = connection.execute(IS_KNOWN, (partition.as_string(connection),)).fetchone()
    return row is not None and bool(row[0])
