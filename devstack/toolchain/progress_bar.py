"""Shows how far the installation of the toolchain is: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 10.0


class Task(Protocol):
    """One piece of work of known size."""

    def advance(self, amount: float, note: str = "") -> None:
        """``amount`` more is done; ``note`` says what is at hand."""

    def grow(self, total: float) -> None:
        """The size has become known."""

    def finish(self) -> None:
        """All is done, however little there was to do."""


class Reporter(Protocol):
    """Where tasks are shown. Its methods may be called from any thread."""

    def task(self, name: str, total: float | None) -> Task:
        """Show a task that begins now; ``total`` is None while its size is unknown."""


@contextmanager
def reporter(console: Console) -> Iterator[Reporter]:
    """Bars where ``console`` is a terminal, lines where it is not."""
    if not console.is_terminal:
        yield LineReporter(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    note = TextColumn("[dim]{task.fields[note]}")
    with Progress(*columns, TimeElapsedColumn(), note, console=console) as bars:
        yield BarReporter(bars)


class BarReporter:
    """Tasks as bars of rich."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def task(self, name: str, total: float | None) -> Task:
        """See :class:`Reporter`."""
        return Bar(self._bars, self._bars.add_task(name, total=total, note=""))


class Bar:
    """One bar."""

    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: float, note: str = "") -> None:
        """See :class:`Task`."""
        self._bars.update(self._task, advance=amount, note=note[-60:])

    def grow(self, total: float) -> None:
        """See :class:`Task`."""
        self._bars.update(self._task, total=total)

    def finish(self) -> None:
        """See :class:`Task`."""
        self._bars.update(self._task, total=1, completed=1, note="")


class LineReporter:
    """Tasks as lines, for logs and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def task(self, name: str, total: float | None) -> Task:
        """See :class:`Reporter`."""
        self._console.print(f"{name} …", highlight=False)
        return Lines(self._console, name, total)


class Lines:
    """One task as a line every few seconds."""

    def __init__(self, console: Console, name: str, total: float | None) -> None:
        self._console, self._name, self._total = console, name, total
        self._done = 0.0
        self._shown_at = time.monotonic()
        self._lock = threading.Lock()

    def advance(self, amount: float, note: str = "") -> None:
        """See :class:`Task`."""
        with self._lock:
            self._done += amount
            if time.monotonic() - self._shown_at >= LINE_EVERY_SECONDS:
                self._shown_at = time.monotonic()
                self._console.print(f"{self._name} {self._share()} {note}".rstrip(), highlight=False)

    def grow(self, total: float) -> None:
        """See :class:`Task`."""
        self._total = total

    def finish(self) -> None:
        """See :class:`Task`."""
        self._console.print(f"{self._name} done", highlight=False)

    def _share(self) -> str:
        return f"{min(100, 100 * self._done / self._total):.0f} %" if self._total else "…"
