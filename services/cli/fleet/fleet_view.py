"""The whole fleet on one screen: what ``gitopsctl engines list --watch`` and the demo show live.

What is under way, which is the rollout, remedies and moves, and below it a row for each instance, those that are ill
first: as many as the terminal has room for. Everything comes from one look at the database; how it is shown is decided
without another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg import IsolationLevel
from rich.console import RenderableType
from rich.text import Text

from services.cli.database_connection import connected
from services.cli.fleet.fleet_orders import TIME
from services.cli.fleet.instance_table import NO_INSTANCE, QUIET, InstanceTable, columns_for
from services.cli.watching import FittedTable
from services.planner.database.fleet_queries import load_counted_fleet, load_measured
from services.planner.database.remedy_queries import load_remediations
from services.planner.database.rollout_queries import load_rollout_news, shown_state
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.moves import NUMBERS as MOVE_NUMBERS
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.rollouts.rollout import NUMBERS as ROLLOUT_NUMBERS
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Move
from services.planner.engines.available import ENGINES

MOST_LINES = 8
"""Moves, or ill instances, that are listed; a line counts the others."""


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
        return Text(NO_INSTANCE)
    troubles = {row.id: trouble for row in snapshot.instances() if (trouble := _trouble(snapshot, row))}
    ill_first = sorted(rows, key=lambda row: row.id not in troubles)
    columns = columns_for(snapshot.fleet, rows)
    under_way = [*_under_way(snapshot, troubles)]
    above = [*under_way, Text()] if under_way else []
    return FittedTable(above, lambda count: InstanceTable(snapshot.fleet, ill_first[:count], columns), len(rows))


def remedy_words(remedy: Remediation) -> str:
    """How far the remediation of an instance is, such as ``acting Evacuate``."""
    return " ".join(filter(None, (remedy.state, remedy.rung)))


def rollout_words(rollout: Rollout) -> str:
    """How far a rollout is, without what it waits for."""
    at = f"{ROLLOUT_NUMBERS[rollout.step]} {rollout.step}"
    where = f"ring {rollout.ring}, {at}, {rollout.stage} %: {rollout.moved} of {rollout.tenants} tenants moved"
    state = shown_state(rollout)
    return f"rollout of {rollout.release.in_words}: {state if rollout.is_over or rollout.is_paused else where}"


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
    health, remedy = snapshot.fleet.health.get(row.id), snapshot.remedy(row.id)
    words = (
        row.state_message or "",
        health.reason if health is not None else "",
        f"remedy {remedy_words(remedy)}" if remedy is not None else "",
    )
    return ", ".join(filter(None, words))
