"""The whole fleet on one screen: what ``gitopsctl engines list --watch`` and the demo show live.

What is under way, which is the rollout, remedies and moves, and below it a row for each instance, those that are ill
first: as many as the terminal has room for. Everything comes from one look at the database; how it is shown is decided
without another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg import IsolationLevel
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from services.cli.database_connection import connected
from services.cli.fleet.fleet_orders import TIME
from services.cli.watching import FittedTable
from services.common.messages import Health
from services.planner.database.fleet_queries import load_counted_fleet, load_measured
from services.planner.database.remedy_queries import load_remediations
from services.planner.database.rollout_queries import load_rollout_news, shown_state
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.moves import NUMBERS as MOVE_NUMBERS
from services.planner.domain.fleet.placement.measured_load import in_applications
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.rollouts.rollout import NUMBERS as ROLLOUT_NUMBERS
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Move
from services.planner.engines.available import ENGINES

STATE_COLOURS: Mapping[str, str] = {
    "accepting": "green",
    "provisioning": "cyan",
    "full": "yellow",
    "draining": "yellow",
    "cordoned": "yellow",
    "closed": "yellow",
    "failed": "red",
}
"""Of other states: dim."""
HEALTH_COLOURS: Mapping[str, str] = {
    Health.HEALTHY.value: "green",
    Health.DEGRADED.value: "yellow",
    Health.DOWN.value: "bold red",
}
QUIET = "dim"
BAR_CELLS = 6
MOST_LINES = 8
"""Of moves, and of instances that are ill; how many there are besides is told."""
Cell = Callable[["FleetSnapshot", EngineInstanceRow], Text]


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All that a screen shows, as it was at one moment."""

    fleet: Fleet
    """With what instances carry."""
    remediations: Mapping[str, Remediation] = field(default_factory=dict)
    """By instance."""
    rollout: Rollout | None = None
    """One that is under way, or has ended within a day."""

    def instances(self, *, retired: bool = False) -> list[EngineInstanceRow]:
        """Those that are shown, by their ids: those that are retired only if that is asked for."""
        wanted = (each for each in self.fleet.instances.values() if retired or not each.is_retired)
        return sorted(wanted, key=lambda each: each.id)

    def moves(self) -> list[Move]:
        """Those that are not over; the oldest order first."""
        return [move for move in self.fleet.moves.values() if not move.is_over]

    def remedy(self, instance: str) -> Remediation | None:
        """What is done for an instance that is ill or recovering; None for one that is well."""
        row = self.remediations.get(instance)
        return row if row is not None and row.state != "well" else None


def load_snapshot(url: str) -> FleetSnapshot:
    """As the database shows it now, in one snapshot: a move is under way, or its tenants are there, and never neither.

    Raises Retry, InvalidConfiguration.
    """
    with connected(url) as connection:
        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        fleet = load_counted_fleet(connection, ENGINES)
        fleet = replace(fleet, load=load_measured(connection, ENGINES))
        ((now,),) = connection.execute(TIME).fetchall()
        return FleetSnapshot(fleet, load_remediations(connection), load_rollout_news(connection, now))


def screen(snapshot: FleetSnapshot, *, retired: bool = False) -> RenderableType:
    """A line for each thing that is under way, and the table of the instances."""
    rows = snapshot.instances(retired=retired)
    if not rows:
        return Text("there is no engine instance")
    troubles = {row.id: trouble for row in snapshot.instances() if (trouble := _trouble(snapshot, row))}
    ill_first = sorted(rows, key=lambda row: row.id not in troubles)
    columns = {**COLUMNS, **_columns_in_use(rows)}
    under_way = [*_under_way(snapshot, troubles)]
    above = [*under_way, Text()] if under_way else []
    return FittedTable(above, lambda count: _table(snapshot, ill_first[:count], columns), len(rows))


def _table(snapshot: FleetSnapshot, rows: Sequence[EngineInstanceRow], columns: Mapping[str, Cell]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in columns:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*(cell(snapshot, row) for cell in columns.values()))
    return table


def remedy_words(remedy: Remediation) -> str:
    """How far the remediation of an instance is, such as ``acting Evacuate``."""
    return " ".join(filter(None, (remedy.state, remedy.rung)))


def rollout_words(rollout: Rollout) -> str:
    """How far a rollout is, without what it waits for."""
    at = f"{ROLLOUT_NUMBERS[rollout.step]} {rollout.step}"
    where = f"ring {rollout.ring}, {at}, {rollout.stage} %: {rollout.moved} of {rollout.tenants} tenants moved"
    state = shown_state(rollout)
    return f"rollout of {rollout.release.in_words}: {state if rollout.is_over or rollout.is_paused else where}"


def _state(snapshot: FleetSnapshot, row: EngineInstanceRow) -> Text:
    """Its state, or what keeps tenants from it that would come by that: it is cordoned, or closed by a rollout."""
    is_closed = row.is_taking and row.id in snapshot.fleet.closed
    state = "cordoned" if row.id in snapshot.fleet.cordoned else "closed" if is_closed else row.state
    return Text(state, STATE_COLOURS.get(state, QUIET))


def _health(snapshot: FleetSnapshot, row: EngineInstanceRow) -> Text:
    told = snapshot.fleet.health.get(row.id)
    if told is None:
        return Text(Health.UNKNOWN.value, QUIET)
    return Text(told.health, HEALTH_COLOURS.get(told.health, "magenta"))


def _load(snapshot: FleetSnapshot, row: EngineInstanceRow) -> Text:
    """A bar, and the numbers: in Applications' worth of work."""
    load = in_applications(snapshot.fleet.load.get(row.id, 0))
    share = min(1.0, load / row.capacity) if row.capacity else 1.0
    filled = round(share * BAR_CELLS) if share else 0
    bar = "█" * filled + "░" * (BAR_CELLS - filled)
    return Text.assemble((bar, "yellow" if share >= 1 else "cyan"), f" {load:g} of {row.capacity}")


COLUMNS: Mapping[str, Cell] = {
    "instance": lambda _, row: Text(row.id, "bold"),
    "ring": lambda _, row: Text(row.ring),
    "version": lambda snapshot, row: Text(snapshot.fleet.version_of(row) or "-"),
    "state": _state,
    "health": _health,
    "load": _load,
    "tenants": lambda snapshot, row: Text(str(snapshot.fleet.holding(row.id).tenants), justify="right"),
}
"""Of every fleet."""


def _columns_in_use(rows: list[EngineInstanceRow]) -> dict[str, Cell]:
    """More columns, each only if it tells something: in most fleets it would say the same of each instance."""
    found: dict[str, Cell] = {}
    if len({row.engine_cluster for row in rows}) > 1:
        found["cluster"] = lambda _, row: Text(row.engine_cluster)
    if any(row.dedicated_to for row in rows):
        found["dedicated to"] = lambda _, row: Text(row.dedicated_to or "-")
    return found


def _under_way(snapshot: FleetSnapshot, troubles: Mapping[str, str]) -> Iterator[Text]:
    """A line for the rollout, for each instance that is not as it should be, and for each move."""
    if snapshot.rollout is not None:
        words = rollout_words(snapshot.rollout)
        yield Text(f"{words}; {snapshot.rollout.reason}" if snapshot.rollout.reason else words)
    yield from _lines([f"{name}: {trouble}" for name, trouble in troubles.items()], "instances", "list")
    moves = [
        f"move of {move.namespace}: {move.source} → {move.target}, {MOVE_NUMBERS[move.step]} {move.step}"
        for move in snapshot.moves()
    ]
    yield from _lines(moves, "moves", "moves")


def _lines(texts: Sequence[str], what: str, command: str) -> Iterator[Text]:
    yield from map(Text, texts[:MOST_LINES])
    if len(texts) > MOST_LINES:
        yield Text(f"and {len(texts) - MOST_LINES} {what} more: gitopsctl engines {command}", QUIET)


def _trouble(snapshot: FleetSnapshot, row: EngineInstanceRow) -> str:
    """Why an instance is not as it should be, and what is done about that; empty for one that is."""
    told, remedy = snapshot.fleet.health.get(row.id), snapshot.remedy(row.id)
    words = (
        row.state_message or "",
        told.reason if told is not None else "",
        f"remedy {remedy_words(remedy)}" if remedy is not None else "",
    )
    return ", ".join(filter(None, words))
