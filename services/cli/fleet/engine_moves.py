"""``gitopsctl engines move``, ``cancel-move`` and ``moves``: tenants that go from one engine instance to another."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.console import RenderableType
from rich.text import Text

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, give_order
from services.cli.output import OUTPUT, Output, Row, print_rows, table_of
from services.cli.watching import FittedTable, look_every, print_changes, show_screens
from services.common.messages import CancelMove, MoveTenant
from services.common.startup import await_dependency
from services.planner.database.columns import names
from services.planner.domain.fleet.moves.moves import NUMBERS
from services.planner.domain.fleet.rows import OVER as OVER_STEPS
from services.planner.domain.fleet.rows import Move

TENANT = typer.Argument(..., metavar="NAMESPACE", help="Namespace of the tenant.")
WORKSPACE = typer.Option("local", "--workspace", help="Its workspace.")
TARGET = typer.Option(..., "--to", metavar="INSTANCE", help="Where it goes, as 'engines list' shows it.")
OVER = typer.Option(False, "--all", help="Also those that are over.")
WATCH = typer.Option(False, "--watch", "-w", help="Go on until interrupted: the table, or for a program what changes.")

LOOK_EVERY_SECONDS = 1.0
MOVES = f"""
SELECT {names(Move)} FROM moves
 WHERE %s OR step NOT IN ('done', 'cancelled')
 ORDER BY ordered_at, id
"""  # noqa: S608 - of constants
COLUMNS = {
    "workspace": "workspace",
    "namespace": "namespace",
    "from": "from",
    "to": "to",
    "number": "",
    "step": "step",
    "since": "since",
    "message": "message",
}
NO_MOVE = "no tenant is being moved"
"""In place of a table without rows."""


def move(
    namespace: str = TENANT,
    workspace: str = WORKSPACE,
    target: str = TARGET,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a tenant goes to another instance. Its users notice nothing; 'engines moves' shows how far it is."""
    give_order(MoveTenant(workspace, namespace, target), url, timeout, output, dry_run=dry_run)


def cancel_move(
    namespace: str = TENANT,
    workspace: str = WORKSPACE,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a tenant stays where it was. Refused once its source has begun to give it up."""
    give_order(CancelMove(workspace, namespace), url, timeout, output, dry_run=dry_run)


def list_moves(
    output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT, *, over: bool = OVER, watch: bool = WATCH
) -> None:
    """List tenants that are on their way to another instance, with the step that each is at."""
    if watch:
        _watch(url, timeout, output, over=over)
    print_rows(_listed(url, timeout, over=over), COLUMNS, output, nothing=NO_MOVE)


def _watch(url: str, timeout: float, output: Output, *, over: bool) -> None:
    if output is not Output.TABLE:
        looks = look_every(LOOK_EVERY_SECONDS, lambda: _listed(url, timeout, over=True))
        print_changes(looks, output, lambda row: over or row["step"] not in OVER_STEPS)
    show_screens(map(screen, look_every(LOOK_EVERY_SECONDS, lambda: _listed(url, timeout, over=over))))


def screen(rows: Sequence[Row]) -> RenderableType:
    """Moves that have begun before those that wait for their turn, and these before those that are over."""
    if not rows:
        return Text(NO_MOVE)
    ordered = sorted(rows, key=lambda row: (row["step"] in OVER_STEPS, row["step"] == "ordered"))
    return FittedTable((), lambda count: table_of(ordered[:count], COLUMNS), len(ordered))


def _listed(url: str, timeout: float, *, over: bool) -> list[Row]:
    return await_dependency("database", lambda: _moves(url, over=over), timeout)


def _moves(url: str, *, over: bool) -> list[Row]:
    with connected(url) as connection:
        return [_row(Move(*row)) for row in connection.execute(MOVES, (over,))]


def _row(move: Move) -> Row:
    return {
        "id": str(move.id),
        "workspace": move.workspace,
        "namespace": move.namespace,
        "from": move.source,
        "to": move.target,
        "number": NUMBERS[move.step],
        "step": move.step,
        "path": move.path,
        "evacuatedFor": move.evacuated_for,
        "since": move.step_since,
        "message": move.message,
        "actor": move.actor,
        "orderedAt": move.ordered_at,
    }
