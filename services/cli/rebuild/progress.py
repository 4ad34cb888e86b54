"""How far a rebuild is: from where planners replay, what they have come to, and whether all was listed since.

Called by :mod:`rebuild`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import typer
from psycopg import Connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.cli.owner_connection import connected
from services.cli.replay.complete_lists import Gap, LoggedLists, Scope, listed_kinds, read_lists
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import COMMANDS, TopicPartition
from services.common.messages import Command
from services.common.settings import KafkaSettings

LOOK_EVERY_SECONDS = 0.5

POSITIONS = "SELECT topic, partition, first_offset, end_offset FROM rebuild_positions"
BEGAN = "SELECT (extract(epoch FROM min(began_at)) * 1000)::int8 FROM rebuild_positions"
OFFSETS = "SELECT topic, partition, next_offset FROM consumer_offsets"

Offsets = Mapping[TopicPartition, int]


def require_no_rebuild(url: str) -> None:
    """Raises InvalidConfiguration if one was begun, Retry."""
    with connected(url) as connection:
        if connection.execute(POSITIONS).fetchone() is not None:
            raise InvalidConfiguration("a rebuild is under way, and the database may lack rows; leave out --current")


def positions(url: str) -> tuple[Offsets, Offsets]:
    """From where planners replay, and to where. Raises InvalidConfiguration if no rebuild was begun, Retry."""
    with connected(url) as connection:
        rows = connection.execute(POSITIONS).fetchall()
    if not rows:
        raise InvalidConfiguration("no rebuild was begun; run 'gitopsctl rebuild start'")
    first = {TopicPartition(topic, number): offset for topic, number, offset, _ in rows}
    return first, {TopicPartition(topic, number): end for topic, number, _, end in rows}


def _offsets(connection: Connection) -> Offsets:
    return {TopicPartition(topic, number): offset for topic, number, offset in connection.execute(OFFSETS)}


def count_replayed(first: Offsets, ends: Offsets, reached: Offsets) -> int:
    """How many messages between ``first`` and ``ends`` were ``reached``."""
    return sum(min(max(reached.get(source, 0), first[source]), end) - first[source] for source, end in ends.items())


def read_offsets(url: str) -> Offsets:
    """What planners have consumed by now. Raises Retry."""
    with connected(url) as connection:
        return _offsets(connection)


def watch_replay(reached: Callable[[], Offsets], what: str, first: Offsets, ends: Offsets) -> None:
    """Return when planners have ``reached`` the ``ends``; with a bar for whoever looks at a terminal."""
    total, began, console = count_replayed(first, ends, ends), time.monotonic(), Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        while (done := count_replayed(first, ends, reached())) < total:
            bar.update(task, completed=done)
            time.sleep(LOOK_EVERY_SECONDS)
        bar.update(task, completed=done)
    seconds = time.monotonic() - began
    typer.echo(f"{what}: {total} messages in {seconds:.1f} s, {total / max(seconds, LOOK_EVERY_SECONDS):.0f} a second")


def needs_newer_lists(settings: KafkaSettings, workspaces: Sequence[str], first: Offsets, ends: Offsets) -> bool:
    """Whether what is replayed from ``first`` to ``ends`` may lack resources that only a newer list would show.

    Of any of these ``workspaces``. Raises Retry.
    """
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    of_commands = {source: end for source, end in ends.items() if source.topic == COMMANDS}
    lists = read_lists(settings, COMMANDS, codec, since=first, until=of_commands)
    return bool(unreplayed_lists(lists, workspaces, first))


def unreplayed_lists(lists: LoggedLists, workspaces: Iterable[str], first: Offsets) -> list[Gap]:
    """What neither ``lists``, which are replayed, nor a backup has of a workspace and a kind.

    A partition that is taken up behind its beginning goes on where the backup ends, so nothing of it is missed.
    """
    resumed = {
        number for number, oldest in lists.first_offsets.items() if first[TopicPartition(COMMANDS, number)] > oldest
    }
    return [gap for gap in lists.find_gaps(workspaces, listed_kinds()) if gap.scope.partition not in resumed]


def require_newer_lists(url: str, settings: KafkaSettings, workspaces: Sequence[str]) -> None:
    """Raises Retry until planners have taken up a list of every kind that was complete after the rebuild began.

    Of each of these ``workspaces``.
    """
    _, begun = positions(url)
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    lists = read_lists(settings, COMMANDS, codec, since=begun)
    with connected(url) as connection:
        reached, (began,) = _offsets(connection), connection.execute(BEGAN).fetchone()  # type: ignore[misc]
    if missing := not_listed(lists, lists.scopes(workspaces, listed_kinds()), reached, began):
        remedy = "restart their watchers, or if they are gone go on with --without WORKSPACE"
        raise Retry(f"not listed since the rebuild began: {', '.join(missing)}; {remedy}")


def not_listed(lists: LoggedLists, scopes: Iterable[Scope], reached: Offsets, began: int) -> list[str]:
    """Workspaces and kinds of which planners have not taken up a list that ``began`` then, or later."""
    missing = {
        f"{scope.workspace} {scope.kind}"
        for scope in scopes
        if (known := lists.newest.get(scope)) is None
        or known.epoch < began
        or reached.get(TopicPartition(COMMANDS, scope.partition), 0) <= known.end
    }
    return sorted(missing)
