"""What the demo shows: one row per deployment, one column per stage, milliseconds since the change was sent."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from services.cli.journey import Passage, Stage

COLUMNS = (Stage.WATCHED, Stage.PLANNED, Stage.STREAMED, Stage.APPLIED, Stage.STATUS)
ENDINGS = {Stage.DRIFTED: Stage.APPLIED, Stage.REMOVED: Stage.APPLIED}
"""Stages that are shown in another's column: what an agent does last."""


@dataclass(slots=True)
class Row:
    """One change of one deployment."""

    tenant: str
    deployment: str
    change: str
    since: datetime
    reached: dict[Stage, float] = field(default_factory=dict)
    """Milliseconds since the change was sent, by stage."""
    outcome: str = ""


@dataclass(slots=True)
class Board:
    """All rows. Passages come from the thread that reads the log, everything else from the demo's own."""

    rows: list[Row] = field(default_factory=list)
    _current: dict[str, Row] = field(default_factory=dict)
    _early: list[Passage] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, uid: str, row: Row) -> None:
        """A change of deployment ``uid`` was sent; what passes from now on belongs to it."""
        with self._lock:
            self._current[uid] = row
            self.rows.append(row)
            for passage in self._early:
                self._note(passage)

    def note(self, passage: Passage) -> None:
        """A stage was passed."""
        with self._lock:
            self._early.append(passage)  # the log may be quicker than the answer that told us the uid
            self._note(passage)

    def _note(self, passage: Passage) -> None:
        row = self._current.get(passage.uid)
        if row is not None and passage.at >= row.since:
            row.reached.setdefault(passage.stage, (passage.at - row.since).total_seconds() * 1000)

    def __rich__(self) -> RenderableType:
        """The table as it stands."""
        table = Table(title="CR → Application → status, milliseconds since the change was sent", box=box.SIMPLE)
        for heading in ("deployment", "change"):
            table.add_column(heading, no_wrap=True)
        for stage in COLUMNS:
            table.add_column(str(stage), justify="right")
        table.add_column("now")
        with self._lock:
            for row in self.rows:
                table.add_row(f"{row.tenant}/{row.deployment}", row.change, *_cells(row), row.outcome)
        return Group(table)


def _cells(row: Row) -> list[Text]:
    shown = {ENDINGS.get(stage, stage): time for stage, time in row.reached.items()}
    return [Text(f"{shown[stage]:.0f}", "green") if stage in shown else Text("·", "dim") for stage in COLUMNS]
