"""``gitopsctl backup``: writes what the database holds to a folder or a bucket."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import typer

from services.cli.backups.archive import write_archive
from services.cli.backups.store import archive_name, open_store
from services.cli.database_connection import BACKUP, TIMEOUT, checked_url, connected
from services.common.startup import await_dependency

app = typer.Typer(add_completion=False)

PLACE = typer.Argument(..., envvar="BACKUP_STORE", help="A folder, or s3://BUCKET/PREFIX.")
BACKUP_URL = typer.Option(
    ...,
    "--url",
    envvar=BACKUP,
    callback=checked_url,
    help="postgresql://gitops_backup:…@host:port/gitops?sslmode=verify-full&sslrootcert=FILE",
)


@app.command()
def backup(place: str = PLACE, url: str = BACKUP_URL, timeout: float = TIMEOUT) -> None:
    """Write all tables, as they are in one moment, to an archive in PLACE. Nothing stands still meanwhile.

    Where an S3-compatible store is, and who we are there: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY.
    """
    store, name = open_store(place), archive_name(datetime.now(UTC))
    await_dependency("database", lambda: _require_answer(url), timeout)
    with store.written(name) as target, connected(url) as connection:
        description = write_archive(connection, target)
    typer.echo(f"{name}: {description.rows} rows of revision {description.revision}, {store.size_of(name)} bytes")


def _require_answer(url: str) -> None:
    """Raises Retry: what is written cannot be begun again by who waits."""
    with connected(url) as connection:
        connection.execute(psycopg.sql.SQL("SELECT"))
