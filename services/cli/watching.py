"""What ``--watch`` shows.

A program reads each row as a document of its own, and again whenever it has changed. People see a screen, in place of
the one before.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text

from services.cli.output import Output, Row, console, print_document

T = TypeVar("T")


def look_every(seconds: float, look: Callable[[], T]) -> Iterator[T]:
    """What is seen at each look, without an end."""
    while True:
        yield look()
        time.sleep(seconds)


def print_changes(
    looks: Iterable[Sequence[Row]], output: Output, is_listed: Callable[[Row], bool] = lambda row: True
) -> None:
    """Show rows, and each that changes or is new.

    Args:
        looks: all rows as they are at each look; a row's ``id`` identifies it.
        output: JSON or YAML.
        is_listed: whether a row is shown at the first look. Later each change is, so that a program sees an end, too.
    """
    before: dict[str, Row] | None = None
    for rows in looks:
        if before is None:
            before = {row["id"]: row for row in rows if not is_listed(row)}
        for row in rows:
            if row != before.get(row["id"]):
                print_document(row, output)
        before = {row["id"]: row for row in rows}


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table of as many rows as the terminal has room for, and how many there are besides; elsewhere of all."""

    above: Sequence[RenderableType]
    """Lines that are shown whatever the room is."""
    table: Callable[[int], RenderableType]
    """Of so many rows, the most important ones first."""
    rows: int

    def __rich_console__(self, terminal: Console, options: ConsoleOptions) -> RenderResult:
        """As rich asks for it."""
        if not terminal.is_terminal:
            yield self._of(self.rows)
            return
        room = options.max_height
        yield self._of(
            bisect_right(
                range(1, min(self.rows, room) + 1),
                room,
                key=lambda count: len(terminal.render_lines(self._of(count), options, pad=False)),
            )
        )

    def _of(self, count: int) -> RenderableType:
        hidden = self.rows - count
        return Group(*self.above, self.table(count), *([Text(f"and {hidden} more", "dim")] if hidden else []))


def show_screens(screens: Iterable[RenderableType]) -> None:
    """Show each screen in place of the one before, or below it where there is no terminal and it differs from that."""
    shown = console()
    if shown.is_terminal and not shown.is_dumb_terminal:
        with Live(console=shown, auto_refresh=False) as live:
            for screen in screens:
                live.update(screen, refresh=True)
        return
    before = ""
    for screen in screens:
        with shown.capture() as captured:
            shown.print(screen)
        if captured.get() != before:
            before = captured.get()
            typer.echo(before)
