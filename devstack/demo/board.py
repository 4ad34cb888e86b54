"""What the demo shows: one row per change, one column per stage, milliseconds since the change was sent."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from devstack.harness.journey import Passage, Stage

DEPLOYED = "deployed"
"""What git says is in the tenant's cluster."""
SHOWN = "shown"
"""The user's resource tells of it."""

GONE = "nothing left"
"""Nothing of what was deployed is in the tenant's cluster."""

ENDINGS: dict[str, str] = {Stage.DRIFTED: Stage.APPLIED, Stage.REMOVED: Stage.APPLIED, GONE: DEPLOYED}
"""Stages that are shown in another's column: what is done last."""

CLOCK_GRAIN = timedelta(milliseconds=1)
"""Kafka's timestamps are whole milliseconds: one taken just after the change may seem to lie just before it."""


@dataclass(slots=True)
class Row:
    """One change of one resource."""

    tenant: str
    name: str
    change: str
    cause: str = ""
    """Under which its times are summed up; they are not if this is empty."""
    since: datetime = field(default_factory=lambda: datetime.now(UTC) - CLOCK_GRAIN)
    reached: dict[str, float] = field(default_factory=dict)
    """Milliseconds since the change was sent, by stage."""
    outcome: str = ""

    def sent(self) -> None:
        """It is sent now, not when the row was made."""
        self.since = datetime.now(UTC) - CLOCK_GRAIN

    def reach(self, stage: str, at: datetime | None = None) -> None:
        """A stage was passed, now or then."""
        self.reached.setdefault(stage, ((at or datetime.now(UTC)) - self.since).total_seconds() * 1000)


@dataclass(slots=True)
class Board:
    """All rows. Passages come from the thread that reads the log, everything else from the demo's own."""

    title: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    _current: dict[str, Row] = field(default_factory=dict)
    _early: list[Passage] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, row: Row, uid: str = "") -> Row:
        """A change was sent, of the deployment ``uid`` if it is one: what passes from now on belongs to it."""
        with self._lock:
            self.rows.append(row)
            if uid:
                self._current[uid] = row
                for passage in self._early:
                    self._note(passage)
        return row

    def note(self, passage: Passage) -> None:
        """A stage was passed."""
        with self._lock:
            self._early.append(passage)  # the log may be quicker than the answer that told us the uid
            self._note(passage)

    def settle(self) -> None:
        """What passes from now on belongs to none of these rows: as when tenants are moved."""
        with self._lock:
            self._current.clear()
            self._early.clear()

    def _note(self, passage: Passage) -> None:
        row = self._current.get(passage.uid)
        if row is not None and passage.at >= row.since:
            row.reach(passage.stage, passage.at)

    def __rich__(self) -> RenderableType:
        """The table as it stands."""
        table = Table(title=f"{self.title}, milliseconds since the change was sent", box=box.SIMPLE, padding=0)
        for heading in ("resource", "change"):
            table.add_column(heading, no_wrap=True)
        for column in self.columns:
            table.add_column(str(column), justify="right", no_wrap=True)
        table.add_column("now", overflow="fold")
        with self._lock:
            for row in self.rows:
                table.add_row(f"{row.tenant}/{row.name}", row.change, *self._cells(row), Text(row.outcome))
        return table

    def _cells(self, row: Row) -> list[Text]:
        shown = {ENDINGS.get(stage, stage): time for stage, time in row.reached.items()}
        return [Text(f"{shown[name]:.0f}", "green") if name in shown else Text("·", "dim") for name in self.columns]

    def summary(self) -> Table:
        """How long each kind of change took to each stage."""
        table = Table("from … to …", "times", "median ms", "slowest ms", title="Summary", box=box.SIMPLE)
        for column in table.columns[1:]:
            column.justify = "right"
        for cause in dict.fromkeys(row.cause for row in self.rows if row.cause):
            for stage in (*self.columns, *ENDINGS):
                rows = [row for row in self.rows if row.cause == cause]
                times = [row.reached[stage] for row in rows if stage in row.reached]
                if times:
                    table.add_row(f"{cause} → {stage}", str(len(times)), f"{median(times):.0f}", f"{max(times):.0f}")
        return table
