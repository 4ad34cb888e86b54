"""``gitopsctl restore``: loads a backup into an empty database.

The steps around it are an operator's: docs/operations/restored-database.md. What has happened since the backup is in
the logs, and planners replay it from the consumer offsets that the backup holds.

A connector that runs would stream the rows of the backup as they are loaded: what was changed since would be undone,
and what was deleted since deployed again. So nothing is touched while there is one. Where Kafka Connect itself is away,
as when Kafka is lost, too, nothing streams.

1. The tables are made as the backup's revision has them. Crash: run it again.
2. In one transaction workspaces get their partitions, and all rows are loaded. Crash: nothing of it is there.
3. The migrations since then are applied. Crash: 'gitopsctl database upgrade' goes on.
4. Workspaces get their partitions of tables that are newer. Crash: 'gitopsctl workspaces add' makes them.
"""

from __future__ import annotations

from collections.abc import Collection
from zipfile import ZipFile

import typer
from psycopg import Connection, sql

from services.cli.backups.archive import Description, load_table, opened, read_description, verify_archive
from services.cli.backups.backup import PLACE
from services.cli.backups.store import open_store
from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.installation import connector, database
from services.cli.installation.workspaces import make_tables, move_rows
from services.cli.output import tell
from services.cli.rebuild.start import require_empty
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.startup import await_dependency

app = typer.Typer(add_completion=False)

ARCHIVE = typer.Option("", "--archive", help="Its name; the newest if it is left out.")
DRY_RUN = typer.Option(False, "--dry-run", help="Read and verify all of the archive, and change nothing.")

TRUNCATE = sql.SQL("TRUNCATE {} CASCADE")  # with what is not saved, and names some of it
# What is added later must not have a number that is there already.
ADVANCE = """
SELECT setval(pg_get_serial_sequence('parked_events', 'number'), greatest(max(number), 1)) FROM parked_events
"""


@app.command()
def restore(
    place: str = PLACE, archive: str = ARCHIVE, url: str = URL, timeout: float = TIMEOUT, *, dry_run: bool = DRY_RUN
) -> None:
    """Load an archive from PLACE into an empty database, with the roles of compose/postgres/init.sql.

    Needs CONNECT_…, too: it is refused while the connector runs.
    """
    store = open_store(place)
    names = store.list_archives()
    if not names or (archive and archive not in names):
        raise InvalidConfiguration(f"{place} has no {archive or 'backup'}; it has {', '.join(names) or 'nothing'}")
    name = archive or names[-1]
    with store.read(name) as source, opened(source) as saved:
        description = read_description(saved)
        typer.echo(f"{name}: {description.rows} rows of {description.taken_at:%Y-%m-%d %H:%M:%S}")
        if dry_run:
            verify_archive(saved)
            return
        _require_no_stream(timeout)
        if database.upgrade_to(description.revision, url, timeout) != description.revision:
            raise InvalidConfiguration(f"the database is not of revision {description.revision}: take an empty one")
        await_dependency("database", lambda: _load(url, saved, description), timeout)
    revision = database.upgrade_to("head", url, timeout)
    await_dependency("database", lambda: _make_partitions(url, description.workspaces), timeout)
    typer.echo(f"restored, and of revision {revision} now; next: 'gitopsctl rebuild start --restored'")


def _require_no_stream(timeout: float) -> None:
    """Raises InvalidConfiguration if the connector runs or knows its place, Unavailable if Connect does not tell."""
    try:
        is_stopped = await_dependency("Kafka Connect", connector.is_stopped, timeout)
    except Unavailable as error:
        if not isinstance(error.__cause__, connector.Unreachable):
            raise
        tell(f"{error}; if it is started before 'gitopsctl rebuild follow' has ended, it must have no connector")
        return
    if not is_stopped:
        raise InvalidConfiguration("the backup's rows would be streamed; run 'gitopsctl connector stop' first")


def _load(url: str, saved: ZipFile, description: Description) -> None:
    """All or nothing. Raises Retry, and InvalidConfiguration if the database is not empty."""
    with connected(url) as connection:
        _load_rows(connection, saved, description)


def _make_partitions(url: str, workspaces: Collection[str]) -> None:
    """Of tables that the revision of the backup did not have."""
    with connected(url) as connection:
        _add_partitions(connection, workspaces)


def _add_partitions(connection: Connection, workspaces: Collection[str]) -> None:
    for workspace in workspaces:
        make_tables(connection, workspace)
        move_rows(connection, workspace)


def _load_rows(connection: Connection, saved: ZipFile, description: Description) -> None:
    connection.execute("LOCK TABLE consumer_offsets IN ACCESS EXCLUSIVE MODE")
    require_empty(connection)
    _add_partitions(connection, description.workspaces)
    names = sql.SQL(", ").join(sql.Identifier(table.name) for table in description.tables)
    connection.execute(TRUNCATE.format(names))
    for table in description.tables:
        load_table(connection, saved, table)
    connection.execute(ADVANCE)
