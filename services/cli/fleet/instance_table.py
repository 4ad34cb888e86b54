"""The table of engine instances that ``gitopsctl engines list``, with ``--watch`` or without, and the demo show people.

It has the columns that tell something of these instances, as far as the terminal has room for them: no line is broken,
and no value is cut. Programs are given every value by ``-o json`` and ``-o yaml``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from services.common.messages import Health
from services.kinds.shared.text import readable
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.measured_load import in_applications
from services.planner.domain.fleet.rows import EngineInstanceRow

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
NO_INSTANCE = "there is no engine instance"
"""In place of a table without rows."""
BAR_CELLS = 6
GAP = 2
"""Cells between two columns."""
Cell = Callable[[Fleet, EngineInstanceRow], Text]


@dataclass(frozen=True, slots=True)
class InstanceTable:
    """Some instances, in columns that fit into the terminal; columns that do not are named below them."""

    fleet: Fleet
    """With what instances carry."""
    rows: Sequence[EngineInstanceRow]
    columns: Mapping[str, Cell]
    """By their headings."""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """As rich asks for it."""
        cells = self._fitting(options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        for heading in cells:
            table.add_column(heading, no_wrap=True)
        for row in zip(*cells.values(), strict=True):
            table.add_row(*row)
        yield table
        if missing := [heading for heading in self.columns if heading not in cells]:
            yield Text(f"no room for {', '.join(missing)}", QUIET, no_wrap=True, overflow="ellipsis")

    def _fitting(self, room: int) -> dict[str, list[Text]]:
        """The cells of each column, of as many columns as fit."""
        for columns in _narrower(self.columns):
            cells = {heading: [cell(self.fleet, row) for row in self.rows] for heading, cell in columns.items()}
            if _width(cells) <= room:
                break
        return cells


def columns_for(fleet: Fleet, rows: Sequence[EngineInstanceRow]) -> dict[str, Cell]:
    """Those of every fleet, and others only if they tell something: in most fleets all instances have the same."""
    found = {**COLUMNS}
    if any(_reason(fleet, row).plain for row in rows):
        found["reason"] = _reason
    if len({row.engine_cluster for row in rows}) > 1:
        found["cluster"] = lambda _, row: Text(row.engine_cluster)
    if len({row.region for row in rows}) > 1:
        found["region"] = lambda _, row: Text(row.region or "-")
    if any(row.dedicated_to for row in rows):
        found["dedicated to"] = lambda _, row: Text(row.dedicated_to or "-")
    return found


def _state(fleet: Fleet, row: EngineInstanceRow) -> Text:
    """Its state; ``cordoned`` or ``closed`` if remediation or a rollout keeps new tenants from it nevertheless."""
    is_closed = row.is_taking and row.id in fleet.closed
    state = "cordoned" if row.id in fleet.cordoned else "closed" if is_closed else row.state
    return Text(state, STATE_COLOURS.get(state, QUIET))


def _health(fleet: Fleet, row: EngineInstanceRow) -> Text:
    health = fleet.health.get(row.id)
    if health is None:
        return Text(Health.UNKNOWN.value, QUIET)
    return Text(health.health, HEALTH_COLOURS.get(health.health, "magenta"))


def _reason(fleet: Fleet, row: EngineInstanceRow) -> Text:
    """Why it is not well, in a word of its agent's."""
    health = fleet.health.get(row.id)
    return Text(readable(health.reason) if health is not None else "")


def _load(fleet: Fleet, row: EngineInstanceRow) -> Text:
    """A bar, and the numbers."""
    load = in_applications(fleet.load.get(row.id, 0))
    share = min(1.0, load / row.capacity) if row.capacity else 1.0
    filled = round(share * BAR_CELLS) if share else 0
    bar = "█" * filled + "░" * (BAR_CELLS - filled)
    return Text.assemble((bar, "yellow" if share >= 1 else "cyan"), " ", _carried(fleet, row))


def _carried(fleet: Fleet, row: EngineInstanceRow) -> Text:
    """In Applications' worth of work."""
    return Text(f"{in_applications(fleet.load.get(row.id, 0)):g} of {row.capacity}")


COLUMNS: Mapping[str, Cell] = {
    "instance": lambda _, row: Text(row.id, "bold"),
    "ring": lambda _, row: Text(row.ring),
    "version": lambda fleet, row: Text(readable(fleet.version_of(row)) or "-"),
    "state": _state,
    "health": _health,
    "load": _load,
    "tenants": lambda fleet, row: Text(str(fleet.holding(row.id).tenants), justify="right"),
}
"""Of every fleet."""
GIVING_WAY = ("version", "region", "ring", "dedicated to", "cluster", "tenants", "reason", "load", "health")
"""Columns that a terminal may have no room for, those first that are missed least. The others always fit into one of 80
cells: an id is a DNS label."""


def _narrower(columns: Mapping[str, Cell]) -> Iterator[Mapping[str, Cell]]:
    """All columns, then the load without its bar, then one column less each time."""
    yield columns
    left = {**columns, "load": _carried}
    yield left
    for heading in GIVING_WAY:
        if left.pop(heading, None) is not None:
            yield left


def _width(cells: Mapping[str, Sequence[Text]]) -> int:
    widest = (max([cell_len(heading), *(cell.cell_len for cell in column)]) for heading, column in cells.items())
    return sum(widest) + GAP * (len(cells) - 1)
