"""``gitopsctl engines rollout``: a version, or a configuration profile, that comes to the fleet ring by ring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pydantic
import typer
from rich.console import RenderableType
from rich.text import Text

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, PlanTable, give_order
from services.cli.output import OUTPUT, Output, Row, print_rows, table_of
from services.cli.watching import look_every, print_changes, show_screens
from services.common.messages import AbortRollout, PauseRollout, ResumeRollout, StartRollout
from services.common.startup import await_dependency
from services.planner.database.fleet_queries import load_tenants_on
from services.planner.database.rollout_queries import load_newest_rollout, shown_state
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.ring_instances import ring_of
from services.planner.domain.fleet.rollouts.rollout import NUMBERS
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rollouts.stages import STAGES, stage_tenants

app = typer.Typer(help="A version that comes to the fleet ring by ring.", no_args_is_help=True)

LOOK_EVERY_SECONDS = 1.0
DURATION = pydantic.TypeAdapter(timedelta)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}
COLUMNS = {
    "version": "version",
    "state": "state",
    "ring": "ring",
    "number": "",
    "step": "step",
    "stage": "stage %",
    "moved": "moved",
    "tenants": "of",
    "since": "since",
    "reason": "reason",
}
NO_ROLLOUT = "no rollout has been ordered"
"""In place of a table without rows."""
PLANNED = {
    "ring": "ring",
    "oldInstances": "old instances",
    "newInstances": "new instances",
    "tenants": "tenants",
    "stages": "moved by stage",
}


def duration(text: Any) -> timedelta:
    """What an option says, such as 90s, 30m, 1h, or ISO 8601. Raises BadParameter."""
    if isinstance(text, timedelta):
        return text
    number, unit = str(text)[:-1], UNITS.get(str(text)[-1:])
    try:
        return timedelta(**{unit: int(number)}) if unit else DURATION.validate_python(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter("it is a number with s, m or h, such as 1h") from error


VERSION = typer.Argument(..., metavar="VERSION", help="Of Argo CD, such as 3.2.11.")
PROFILE = typer.Option("", "--profile", help="Configuration of the new instances; if not given, the usual one.")
RINGS = typer.Option("", "--rings", help="Which, comma separated; if not given, all that have instances.")
SOAK = typer.Option("1h", "--soak", parser=duration, metavar="DURATION", help="For which each stage is looked at.")
SECURITY = typer.Option(False, "--security", help="A sixth of the soak, but no less than five minutes of it.")
WATCH = typer.Option(False, "--watch", "-w", help="Go on until it is over: the table, or for a program what changes.")


@app.command()
def start(  # noqa: PLR0913, PLR0917 - an option for each thing that is ordered, and those of all orders
    version: str = VERSION,
    profile: str = PROFILE,
    rings: str = RINGS,
    soak: Any = SOAK,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    security: bool = SECURITY,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a version comes to the fleet: in each ring tenants move to new instances of it, stage by stage.

    --dry-run shows the rings, and how many tenants would move at each stage.
    """
    wanted = tuple(filter(None, map(str.strip, rings.split(","))))
    order = StartRollout(version, profile, wanted, int(soak.total_seconds()), is_security=security)

    def rows(planned: Fleet) -> list[Row]:
        return planned_rows(_with_tenants(planned, url, timeout))

    give_order(order, url, timeout, output, {"rings": PlanTable(rows, PLANNED)}, dry_run=dry_run)


@app.command()
def pause(url: str = READING_URL, timeout: float = WAIT, output: Output = OUTPUT, *, dry_run: bool = DRY_RUN) -> None:
    """Order that no further tenant moves, and no gate is asked, until the rollout is resumed."""
    give_order(PauseRollout(), url, timeout, output, dry_run=dry_run)


@app.command()
def resume(url: str = READING_URL, timeout: float = WAIT, output: Output = OUTPUT, *, dry_run: bool = DRY_RUN) -> None:
    """Order that a rollout that is paused goes on; a soak begins anew."""
    give_order(ResumeRollout(), url, timeout, output, dry_run=dry_run)


@app.command()
def abort(url: str = READING_URL, timeout: float = WAIT, output: Output = OUTPUT, *, dry_run: bool = DRY_RUN) -> None:
    """Order that the tenants of the present ring go back, if they still can, and that no other ring follows."""
    give_order(AbortRollout(), url, timeout, output, dry_run=dry_run)


@app.command()
def status(output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT, *, watch: bool = WATCH) -> None:
    """Show the newest rollout: its ring and stage, how many tenants have moved, what it waits for, or why it ended."""
    if watch:
        _watch(url, timeout, output)
        return
    print_rows(status_rows(_newest(url, timeout)), COLUMNS, output, nothing=NO_ROLLOUT)


def planned_rows(planned: Fleet) -> list[Row]:
    """A row for each ring of a rollout that is tried: its instances, and how many tenants have moved by each stage."""
    rollout = planned.rollout
    return [] if rollout is None else [_planned_row(rollout, ring, planned) for ring in rollout.ring_names]


def _planned_row(rollout: Rollout, name: str, planned: Fleet) -> Row:
    """The row of a ring: how many ``tenants`` it has, and how many have left the old instances by each of ``stages``.

    Who is on the way counts once, where it is: what instances hold counts it where it goes, too.
    """
    ring = ring_of(replace(rollout, ring=name), name, planned)
    old, new = [row.id for row in ring.sources], [row.id for row in ring.targets]
    places = Counter(tenant.engine_instance_id for tenant in planned.tenants.on([*old, *new]).values())
    moving = sum(places[each] for each in old)
    return {
        "ring": name,
        "oldInstances": old,
        "newInstances": new,
        "tenants": moving + sum(places[each] for each in new),
        "stages": list(dict.fromkeys(stage_tenants(stage, moving) for stage in STAGES)),
    }


def _with_tenants(planned: Fleet, url: str, timeout: float) -> Fleet:
    """The fleet with the tenants of the rollout's rings, to count them: the order is decided without them."""
    rings = () if planned.rollout is None else planned.rollout.ring_names
    members = [row.id for row in planned.instances.values() if row.ring in rings]

    def look() -> Fleet:
        with connected(url) as connection:
            return replace(planned, tenants=load_tenants_on(connection, members))

    return await_dependency("database", look, timeout)


def status_rows(rollout: Rollout | None) -> list[Row]:
    """The rollout as it is shown: a row, or none if there is no rollout."""
    if rollout is None:
        return []
    row = {
        "id": str(rollout.id),
        "version": rollout.version,
        "profile": rollout.profile,
        "rings": list(rollout.ring_names),
        "state": shown_state(rollout),
        "ring": rollout.ring,
        "number": NUMBERS[rollout.step],
        "step": rollout.step,
        "stage": rollout.stage,
        "moved": rollout.moved,
        "tenants": rollout.tenants,
        "since": rollout.step_since,
        "reason": rollout.reason,
        "soakSeconds": int(rollout.soak.total_seconds()),
        "oldInstances": sorted(rollout.source_ids),
        "newInstances": sorted(rollout.target_ids),
        "dueAt": rollout.due_at,
        "actor": rollout.actor,
        "orderedAt": rollout.ordered_at,
    }
    return [row]


def screen(rows: Sequence[Row]) -> RenderableType:
    """What people see of the rows of :func:`status_rows`."""
    return table_of(rows, COLUMNS) if rows else Text(NO_ROLLOUT)


def _watch(url: str, timeout: float, output: Output) -> None:
    if output is not Output.TABLE:
        print_changes(_until_over(url, timeout), output)
    else:
        show_screens(map(screen, _until_over(url, timeout)))


def _until_over(url: str, timeout: float) -> Iterator[list[Row]]:
    for rollout in look_every(LOOK_EVERY_SECONDS, lambda: _newest(url, timeout)):
        yield status_rows(rollout)
        if rollout is None or rollout.is_over:
            return


def _newest(url: str, timeout: float) -> Rollout | None:
    def look() -> Rollout | None:
        with connected(url) as connection:
            return load_newest_rollout(connection)

    return await_dependency("database", look, timeout)
