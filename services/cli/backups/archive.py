"""A backup is one ZIP archive: the rows of each table as PostgreSQL's COPY writes them, and a description at its end.

All is read in one REPEATABLE READ transaction, so it is the database between two batches of the planners: rows and
consumer offsets belong together. There is no schema in it. It names the revision of the rows, and the migrations
make the tables; so a backup is restored by any newer build. pg_dump would have to be of the server's version or newer,
which the production image, without any client of PostgreSQL, has no room for.

The description is written last, and ZIP has a checksum of each member: an archive that was cut off, or that a disk has
changed, is not loaded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import orjson
from psycopg import Connection, IsolationLevel, sql

from services.common.errors import InvalidConfiguration
from services.planner.database.tables.metadata import METADATA
from services.planner.database.tables.publication import debezium_heartbeat, debezium_signals
from services.planner.database.tables.rebuild import placements, rebuild_positions

FORMAT = 1
DESCRIPTION = "backup.json"
COMPRESSION = 3
"""Of zlib's nine levels; higher ones take twice as long for a tenth less."""
BLOCK_BYTES = 256 * 1024

LEFT_OUT = (debezium_signals, debezium_heartbeat, placements, rebuild_positions)
"""What the connector writes for itself, and what is begun anew with each rebuild."""
SAVED = tuple(table for table in METADATA.sorted_tables if table not in LEFT_OUT)
"""In an order in which foreign keys find what they name."""

SNAPSHOT = "SELECT version_num, now() FROM alembic_version"
WORKSPACES = """
SELECT substring(relid::text FROM '^"?workspace_resources_(.+?)"?$')
  FROM pg_partition_tree('workspace_statuses') WHERE isleaf AND relid::text <> 'workspace_resources' ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class SavedTable:
    """Rows of one table."""

    name: str
    columns: tuple[str, ...]
    rows: int

    @property
    def member(self) -> str:
        """The name of its file in the archive."""
        return f"{self.name}.copy"


@dataclass(frozen=True, slots=True)
class Description:
    """What an archive holds."""

    revision: str
    """Of the database's schema."""
    taken_at: datetime
    workspaces: tuple[str, ...]
    """Those with a partition of their own."""
    tables: tuple[SavedTable, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(table.rows for table in self.tables)


def write_archive(connection: Connection, target: BinaryIO) -> Description:
    """Write all tables as they are in one snapshot. ``target`` need not be seekable; it is not closed."""
    connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
    with connection.transaction(), ZipFile(target, "w", ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:
        row = connection.execute(SNAPSHOT).fetchone()
        if row is None:
            raise InvalidConfiguration("the database is empty; run 'gitopsctl database upgrade'")
        names = tuple(name for (name,) in connection.execute(WORKSPACES))
        saved = tuple(_write_table(connection, archive, table.name, tuple(table.columns.keys())) for table in SAVED)
        description = Description(row[0], row[1], names, saved)
        archive.writestr(DESCRIPTION, orjson.dumps({"format": FORMAT} | asdict(description)))
    return description


def _write_table(connection: Connection, archive: ZipFile, name: str, columns: tuple[str, ...]) -> SavedTable:
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(_listed(columns), sql.Identifier(name))
    with connection.cursor() as cursor:
        # A table may be larger than ZIP's first version could say.
        member = archive.open(SavedTable(name, columns, 0).member, "w", force_zip64=True)
        with member, cursor.copy(statement) as copy:
            for block in copy:
                member.write(block)
        return SavedTable(name, columns, cursor.rowcount)


@contextmanager
def opened(source: BinaryIO) -> Iterator[ZipFile]:
    """The archive in ``source``. Raises InvalidConfiguration if it is none, or was changed."""
    try:
        with ZipFile(source) as archive:
            yield archive
    except (BadZipFile, EOFError, zlib.error) as error:
        raise InvalidConfiguration(f"not a whole backup: {error}") from error


def read_description(archive: ZipFile) -> Description:
    """Raises InvalidConfiguration if there is none that this build understands."""
    try:
        content = orjson.loads(archive.read(DESCRIPTION))
    except (KeyError, orjson.JSONDecodeError) as error:
        raise InvalidConfiguration(f"not a backup: it has no {DESCRIPTION}") from error
    if content["format"] != FORMAT:
        raise InvalidConfiguration(f"this build reads backups of format {FORMAT}, not {content['format']}")
    saved = tuple(SavedTable(each["name"], tuple(each["columns"]), each["rows"]) for each in content["tables"])
    taken_at = datetime.fromisoformat(content["taken_at"])
    return Description(content["revision"], taken_at, tuple(content["workspaces"]), saved)


def load_table(connection: Connection, archive: ZipFile, table: SavedTable) -> None:
    """Add its rows, in the open transaction. Raises InvalidConfiguration if they are not as many as were saved."""
    target = sql.SQL("{} ({})").format(sql.Identifier(table.name), _listed(table.columns))
    with connection.cursor() as cursor:
        with archive.open(table.member) as member, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(target)) as copy:
            while block := member.read(BLOCK_BYTES):
                copy.write(block)
        if cursor.rowcount != table.rows:
            raise InvalidConfiguration(f"{table.name} has {cursor.rowcount} rows of {table.rows}: not a whole backup")


def verify_archive(archive: ZipFile) -> None:
    """Read all of it. Raises InvalidConfiguration if a byte is not as it was written."""
    if (broken := archive.testzip()) is not None:
        raise InvalidConfiguration(f"not a whole backup: {broken} is not as it was written")


def _listed(columns: tuple[str, ...]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
