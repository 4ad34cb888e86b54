"""``gitopsctl orphans kept, show, approve``: objects that agents keep though no row desires them, being so many.

An approval is a command with the digest of what was shown. The planner makes a row of it that names the objects, the
agent removes those that no row desires by then, and the row goes when none is left. If the agent has reported other
objects meanwhile, their digest is another, and the approval has no effect.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import typer
from psycopg.rows import class_row

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.guards.approvals import name_of, named
from services.cli.output import OUTPUT, Output, print_rows, tell
from services.cli.sending import Addressed, send_addressed
from services.common.messages import ORPHAN_REMOVAL, Command, OrphansApproved
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency

NAMES = typer.Argument(..., metavar="NAME...", help="As 'orphans kept' shows them: INSTANCE@DIGEST.")
DRY_RUN = typer.Option(False, "--dry-run", help="Only tell what would be approved.")

KEPT = """
SELECT k.engine_instance_id, k.existing, k.total, k.objects, k.digest, k.reported_at,
       EXISTS (SELECT FROM engine_resources e
                WHERE (e.engine_instance_id, e.kind, e.name) = (k.engine_instance_id, %s, k.digest)) AS is_approved
  FROM kept_orphans k
 ORDER BY k.engine_instance_id
"""
COLUMNS = {
    "name": "name",
    "existing": "objects",
    "kept": "kept",
    "removes": "would remove",
    "approved": "approved",
    "reportedAt": "reported at",
}
OBJECT_COLUMNS = {"instance": "instance", "object": "object"}


class Kept(NamedTuple):
    """The orphans that the agent of one instance keeps."""

    engine_instance_id: str
    existing: int
    total: int
    objects: str
    digest: str
    reported_at: datetime
    is_approved: bool

    @property
    def place(self) -> str:
        """The instance."""
        return self.engine_instance_id

    @property
    def names(self) -> list[str]:
        """Names of the objects that an approval removes."""
        found: list[str] = orjson.loads(self.objects)
        return found


def kept(output: Output = OUTPUT, url: str = URL, timeout: float = TIMEOUT) -> None:
    """List instances of which so many objects are desired by no row that their agents keep them."""
    found = await_dependency("database", lambda: kept_orphans(url), timeout)
    print_rows([_row(each) for each in found], COLUMNS, output, nothing="no agent keeps orphans")
    if found:
        tell("orphans: 'gitopsctl orphans show NAME' shows which, 'orphans approve NAME' has them removed")


def show(names: list[str] = NAMES, output: Output = OUTPUT, url: str = URL, timeout: float = TIMEOUT) -> None:
    """Show the objects, by kind and name: what an approval removes."""
    found = _named(await_dependency("database", lambda: kept_orphans(url), timeout), names)
    rows = [{"instance": each.engine_instance_id, "object": name} for each in found for name in each.names]
    print_rows(rows, OBJECT_COLUMNS, output, nothing="nothing would be removed")


def approve(names: list[str] = NAMES, dry_run: bool = DRY_RUN, url: str = URL, timeout: float = TIMEOUT) -> None:
    """Have removed what 'orphans show' shows of these names, or less if rows desire some of it by then; never more."""
    found = _named(await_dependency("database", lambda: kept_orphans(url), timeout), names)
    if not dry_run:
        send_approvals(load(KafkaSettings), found)
    for each in found:
        word = "would be approved" if dry_run else "approved"
        typer.echo(f"{name_of(each)}: {word}, {len(each.names)} objects go")


def kept_orphans(url: str) -> list[Kept]:
    """All that agents keep at present. Raises Retry."""
    with connected(url) as connection, connection.cursor(row_factory=class_row(Kept)) as cursor:
        return cursor.execute(KEPT, (ORPHAN_REMOVAL,)).fetchall()


def send_approvals(settings: KafkaSettings, found: Collection[Kept]) -> None:
    """Approve these, in the partitions of their instances' reports. Raises Unavailable."""
    send_addressed(settings, (Addressed(_approval(each), each.engine_instance_id.encode()) for each in found))


def _approval(found: Kept) -> Command:
    return Command("", "", "", datetime.now(UTC), OrphansApproved(found.engine_instance_id, found.digest))


def _named(found: Collection[Kept], names: Collection[str]) -> list[Kept]:
    return named(found, names, "kept orphans", "orphans kept")


def _row(found: Kept) -> dict[str, Any]:
    return {
        "name": name_of(found),
        "existing": found.existing,
        "kept": found.total,
        "removes": len(found.names),
        "approved": found.is_approved,
        "reportedAt": found.reported_at,
    }
