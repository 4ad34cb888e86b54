"""Which complete lists of the watchers a rebuild needs, and waits for.

A complete list shows what the logs lack because nobody wrote it, or because retention took it away. ``rebuild start``
refuses a log that lacks a list of any kind. ``rebuild follow`` waits for newer lists if what was replayed lacks one.
``rebuild sweep`` waits for them before it withdraws anything. Lists of a workspace whose watchers are gone are not
waited for, if an operator says so.

Called by :mod:`rebuild`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from services.cli.database_connection import connected
from services.cli.rebuild.progress import Offsets, load_offsets, positions
from services.cli.replay.complete_lists import Gap, LoggedLists, Scope, added_workspaces, listed_kinds, read_lists
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import COMMANDS, TopicPartition
from services.common.messages import Command
from services.common.settings import KafkaSettings
from services.common.startup import await_dependency

BEGAN = "SELECT (extract(epoch FROM min(began_at)) * 1000)::int8 FROM rebuild_positions"


def find_awaited_workspaces(settings: KafkaSettings, without: Collection[str], timeout: float) -> list[str]:
    """All workspaces that were added, except those in ``without``. Raises InvalidConfiguration, Unavailable."""
    names = await_dependency("Kafka", lambda: added_workspaces(settings), timeout)
    if unknown := sorted({*without} - {*names}):
        added = ", ".join(names) or "none"
        raise InvalidConfiguration(f"--without {unknown[0]}: no workspace of that name was added, only: {added}")
    return [name for name in names if name not in without]


def require_lists(settings: KafkaSettings, timeout: float) -> None:
    """Raises InvalidConfiguration if an empty database could not be filled from the log."""
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    names = await_dependency("Kafka", lambda: added_workspaces(settings), timeout)
    lists = await_dependency("Kafka", lambda: read_lists(settings, COMMANDS, codec), timeout)
    if gaps := lists.find_gaps(names, listed_kinds()):
        raise InvalidConfiguration(f"the log lacks {len(gaps)} lists: see 'gitopsctl replay check'")


def needs_newer_lists(settings: KafkaSettings, workspaces: Sequence[str], first: Offsets, ends: Offsets) -> bool:
    """Whether what is replayed from ``first`` to ``ends`` may lack resources that only a newer list would show.

    ``workspaces``: those whose lists count. Raises Retry.
    """
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    of_commands = {source: end for source, end in ends.items() if source.topic == COMMANDS}
    lists = read_lists(settings, COMMANDS, codec, since=first, until=of_commands)
    return bool(unreplayed_lists(lists, workspaces, first))


def unreplayed_lists(lists: LoggedLists, workspaces: Iterable[str], first: Offsets) -> list[Gap]:
    """The lists of a workspace and kind that neither ``lists``, which are replayed, nor a backup makes up for.

    A partition that is taken up behind its beginning goes on where the backup ends, so nothing of it is missed.
    """
    resumed = {
        number for number, oldest in lists.first_offsets.items() if first[TopicPartition(COMMANDS, number)] > oldest
    }
    return [gap for gap in lists.find_gaps(workspaces, listed_kinds()) if gap.scope.partition not in resumed]


def require_newer_lists(url: str, settings: KafkaSettings, workspaces: Sequence[str]) -> None:
    """Raises Retry until planners have taken up a list of every kind that was complete after the rebuild began.

    ``workspaces``: each of them needs such lists.
    """
    _, begun = positions(url)
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    lists = read_lists(settings, COMMANDS, codec, since=begun)
    with connected(url) as connection:
        reached, (began,) = load_offsets(connection), connection.execute(BEGAN).fetchone()  # type: ignore[misc]
    if missing := not_listed(lists, lists.scopes(workspaces, listed_kinds()), reached, began):
        remedy = "restart their watchers, or if they are gone go on with --without WORKSPACE"
        raise Retry(f"not listed since the rebuild began: {', '.join(missing)}; {remedy}")


def not_listed(lists: LoggedLists, scopes: Iterable[Scope], reached: Offsets, began: int) -> list[str]:
    """Workspaces and kinds of which planners have not taken up a list that ``began`` then, or later."""
    missing = {
        f"{scope.workspace} {scope.kind}"
        for scope in scopes
        if (newest := lists.newest.get(scope)) is None
        or newest.epoch < began
        or reached.get(TopicPartition(COMMANDS, scope.partition), 0) <= newest.end
    }
    return sorted(missing)
