"""Tells how far a rebuild is: from where to where planners replay, and what they have reached.

Called by :mod:`rebuild`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from psycopg import Connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.cli.database_connection import connected
from services.cli.output import tell
from services.cli.sending import CLIENT
from services.common.clock import Clock, SystemClock
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.kafka import COMMANDS, LogExtent, PartitionReader, TopicPartition, read_extents
from services.common.settings import KafkaSettings

LOOK_EVERY_SECONDS = 0.5
LINE_EVERY_SECONDS = 10.0
MOST_NAMED = 5
"""Partitions, in an error of one line."""

POSITIONS = "SELECT topic, partition, first_offset, end_offset FROM rebuild_positions"
OFFSETS = "SELECT topic, partition, next_offset FROM consumer_offsets"

Offsets = Mapping[TopicPartition, int]


def read_logs(settings: KafkaSettings) -> dict[TopicPartition, LogExtent]:
    """How far each partition of the two logs goes that are replayed. Raises Retry."""
    with PartitionReader(settings, CLIENT) as reader:
        sources = reader.partitions_of(COMMANDS) + reader.partitions_of_observations()
    return read_extents(settings, CLIENT, sources)


def find_ends(logs: Mapping[TopicPartition, LogExtent]) -> dict[TopicPartition, int]:
    """The end offset of each partition."""
    return {source: log.end for source, log in logs.items()}


def require_no_rebuild(url: str) -> None:
    """Raises InvalidConfiguration if a rebuild was begun, Retry."""
    with connected(url) as connection:
        if connection.execute(POSITIONS).fetchone() is not None:
            raise InvalidConfiguration("a rebuild is under way, and the database may lack rows; leave out --current")


def positions(url: str) -> tuple[Offsets, Offsets]:
    """The offsets from and up to which planners replay. Raises InvalidConfiguration if no rebuild was begun, Retry."""
    with connected(url) as connection:
        rows = connection.execute(POSITIONS).fetchall()
    if not rows:
        raise InvalidConfiguration("no rebuild was begun; run 'gitopsctl rebuild start'")
    first = {TopicPartition(topic, number): offset for topic, number, offset, _ in rows}
    return first, {TopicPartition(topic, number): end for topic, number, _, end in rows}


def load_offsets(connection: Connection) -> Offsets:
    """What planners have consumed by now, as the database has it."""
    return {TopicPartition(topic, number): offset for topic, number, offset in connection.execute(OFFSETS)}


def count_replayed(first: Offsets, ends: Offsets, reached: Offsets) -> int:
    """How many messages between ``first`` and ``ends`` were ``reached``.

    A partition that is not in ``first`` is of a newer topic: it counts from its beginning.
    """
    starts = {source: first.get(source, 0) for source in ends}
    return sum(min(max(reached.get(source, 0), starts[source]), end) - starts[source] for source, end in ends.items())


def read_offsets(url: str) -> Offsets:
    """What planners have consumed by now. Raises Retry."""
    with connected(url) as connection:
        return load_offsets(connection)


def watch_replay(
    reached: Callable[[], Offsets],
    what: str,
    first: Offsets,
    ends: Offsets,
    stall_seconds: float,
    clock: Clock | None = None,
) -> None:
    """Return when planners have ``reached`` the ``ends``; a terminal shows a bar, anything else lines.

    Raises Unavailable if they consume nothing for ``stall_seconds``.
    """
    clock, total = clock or SystemClock(), count_replayed(first, ends, ends)
    began = moved_at = clock.time()
    most = 0
    with _shown(what, total, clock) as show:
        while (done := count_replayed(first, ends, offsets := reached())) < total:
            show(done)
            if done > most:
                most, moved_at = done, clock.time()
            elif clock.time() - moved_at >= stall_seconds:
                raise Unavailable(f"planners consumed nothing for {stall_seconds:g} s; {_lack(first, ends, offsets)}")
            time.sleep(LOOK_EVERY_SECONDS)
        show(done)
    seconds = clock.time() - began
    typer.echo(f"{what}: {total} messages in {seconds:.1f} s, {total / max(seconds, LOOK_EVERY_SECONDS):.0f} a second")


def _lack(first: Offsets, ends: Offsets, reached: Offsets) -> str:
    """Which partitions are not at their ends, and what to look at."""
    lacking = []
    for source, end in sorted(ends.items()):
        total, done = end - first.get(source, 0), count_replayed(first, {source: end}, reached)
        if done < total:
            lacking.append(f"{source.topic}/{source.partition} ({done} of {total})")
    named, more = ", ".join(lacking[:MOST_NAMED]), len(lacking) - MOST_NAMED
    return (
        f"not replayed: {named}{f' and {more} more' if more > 0 else ''}: do planners run, and what do their logs say?"
    )


@contextmanager
def _shown(what: str, total: int, clock: Clock) -> Iterator[Callable[[int], None]]:
    """A function that shows how many of the ``total`` messages are done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(what, total, clock).show
        return
    with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@dataclass(slots=True)
class _Lines:
    """Progress where there is no terminal: a line at first, and then every so often."""

    what: str
    total: int
    clock: Clock
    shown_at: float = -math.inf

    def show(self, done: int) -> None:
        if self.clock.time() - self.shown_at >= LINE_EVERY_SECONDS:
            self.shown_at = self.clock.time()
            tell(f"{self.what}: {done} of {self.total} messages")
