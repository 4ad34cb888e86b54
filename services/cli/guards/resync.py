"""``gitopsctl resync``: complete lists that lacked so much that nothing was removed, and how that is approved.

An approval is the end of the list once more, sent by an operator as a command, with the digest of what was shown. The
planner removes what was shown, or less if some of it has been seen meanwhile. If the next list lacks something else,
its refusal has another digest, and the approval has no effect.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

import typer
from psycopg.rows import class_row, dict_row

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.guards.approvals import name_of, named
from services.cli.output import OUTPUT, Output, Row, print_rows, tell
from services.cli.sending import Addressed, send_addressed
from services.common.messages import Command, ResyncCompleted
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Complete lists that lacked too much.", no_args_is_help=True)

NAMES = typer.Argument(..., metavar="NAME...", help="As 'resync status' shows them: SOURCE/KIND/PARTITION@DIGEST.")
DRY_RUN = typer.Option(False, "--dry-run", help="Only tell what would be approved.")
LIMIT = typer.Option(1000, "--limit", min=1, help="How many resources at most.")
# Of what would have been removed, what has not been seen since.
REFUSED = """
SELECT source, kind, partition, epoch, known, digest, refused_at,
       (SELECT count(*) FROM deployments d WHERE d.id = ANY(shown.ids) AND d.present AND d.epoch < r.epoch)
     + (SELECT count(*) FROM resources o WHERE o.id = ANY(shown.ids) AND o.present AND o.epoch < r.epoch) AS unseen
  FROM refused_sweeps r
 CROSS JOIN LATERAL (SELECT array_agg(value::uuid) AS ids FROM json_array_elements_text(r.subjects::json)) AS shown
 ORDER BY source, kind, partition
"""
LACKED = """
SELECT t.workspace || '/' || t.namespace AS tenant, r.kind || '/' || lacked.name AS resource, lacked.uid
  FROM refused_sweeps r
 CROSS JOIN LATERAL (SELECT array_agg(value::uuid) AS ids FROM json_array_elements_text(r.subjects::json)) AS shown
 CROSS JOIN LATERAL (
       SELECT name, uid, tenant_id FROM deployments WHERE id = ANY(shown.ids) AND present AND epoch < r.epoch
        UNION ALL
       SELECT name, uid, tenant_id FROM resources WHERE id = ANY(shown.ids) AND present AND epoch < r.epoch) AS lacked
  JOIN tenants t ON t.id = lacked.tenant_id
 WHERE r.digest = ANY(%s)
 ORDER BY tenant, resource, lacked.uid
 LIMIT %s
"""
STATUS_COLUMNS = {
    "name": "name",
    "refusedAt": "refused at",
    "listBeganAt": "list began at",
    "known": "known",
    "removes": "would remove",
}
LACKED_COLUMNS = {"tenant": "tenant", "resource": "resource", "uid": "uid"}


class RefusedList(NamedTuple):
    """A complete list of one kind, for one partition, that was refused."""

    source: str
    kind: str
    partition: int
    epoch: int
    known: int
    digest: str
    refused_at: datetime
    unseen: int

    @property
    def place(self) -> str:
        """Where it was refused: a newer list there replaces this one."""
        return f"{self.source}/{self.kind}/{self.partition}"


@app.command()
def status(output: Output = OUTPUT, url: str = URL, timeout: float = TIMEOUT) -> None:
    """List complete lists that would have removed more than the guard allows; nothing of theirs was removed."""
    found = await_dependency("database", lambda: refused_lists(url), timeout)
    print_rows([_row(each) for each in found], STATUS_COLUMNS, output, nothing="no resync is refused")
    if found:
        tell("resync: 'gitopsctl resync show NAME' shows what each would remove, 'resync approve NAME' has it removed")


@app.command()
def show(
    names: list[str] = NAMES, limit: int = LIMIT, output: Output = OUTPUT, url: str = URL, timeout: float = TIMEOUT
) -> None:
    """Show the resources that these lists lacked, and that have not been seen since: what an approval removes."""
    found = _named(await_dependency("database", lambda: refused_lists(url), timeout), names)
    rows = await_dependency("database", lambda: lacked_resources(url, found, limit + 1), timeout)
    print_rows(rows[:limit], LACKED_COLUMNS, output, nothing="nothing would be removed by now")
    if len(rows) > limit:
        tell(f"resync: there are more than these {limit}; --limit shows them")


@app.command()
def approve(names: list[str] = NAMES, dry_run: bool = DRY_RUN, url: str = URL, timeout: float = TIMEOUT) -> None:
    """Have removed what 'resync show' shows of these names, or less if some of it is seen meanwhile; never more."""
    found = _named(await_dependency("database", lambda: refused_lists(url), timeout), names)
    if not dry_run:
        send_approvals(load(KafkaSettings), found)
    for each in found:
        typer.echo(f"{name_of(each)}: {'would be approved' if dry_run else 'approved'}, {each.unseen} resources go")


def refused_lists(url: str) -> list[RefusedList]:
    """All that are refused at present. Raises Retry."""
    with connected(url) as connection, connection.cursor(row_factory=class_row(RefusedList)) as cursor:
        return cursor.execute(REFUSED).fetchall()


def lacked_resources(url: str, lists: Collection[RefusedList], limit: int) -> list[Row]:
    """What these lists lacked, and was not seen since. Raises Retry."""
    with connected(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(LACKED, ([each.digest for each in lists], limit)))


def send_approvals(settings: KafkaSettings, lists: Collection[RefusedList]) -> None:
    """Send the ends of these lists once more, approved. Raises Unavailable."""
    send_addressed(settings, (Addressed(_approval(each), None, each.partition) for each in lists))


def _approval(refused: RefusedList) -> Command:
    marker = ResyncCompleted(refused.kind, refused.epoch, approved=refused.digest)
    return Command(refused.source, "", "", datetime.now(UTC), marker)


def _named(found: Collection[RefusedList], names: Collection[str]) -> list[RefusedList]:
    return named(found, names, "refused resync", "resync status")


def _row(refused: RefusedList) -> dict[str, Any]:
    return {
        "name": name_of(refused),
        "refusedAt": refused.refused_at,
        "listBeganAt": datetime.fromtimestamp(refused.epoch / 1000, UTC),
        "known": refused.known,
        "removes": refused.unseen,
    }
