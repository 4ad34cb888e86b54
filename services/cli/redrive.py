"""Which dead letters may be redriven, and how: a tenant's changes keep their order.

A redriven message comes behind all that its partition holds by then. That is in order only if nothing newer is there
about what it is about: otherwise the letter is superseded, and would bring yesterday back. So the log is read from the
letter on, and a letter that is superseded, or of which that cannot be known, stays where it is.

A streamed row is never written to its topic, which is Connect's alone. Connect is asked for the row again by a signal
(an incremental snapshot): what it sends is the row as the database has it by then, in order with its changes.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from psycopg import sql

from services.cli.dead_letters import StoredLetter, mark_done, row_of
from services.cli.owner_connection import connected
from services.cli.sending import CLIENT
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import (
    COMMANDS,
    ENGINE,
    OBSERVATIONS,
    WORKSPACE,
    ConsumedMessage,
    PartitionReader,
    Publisher,
    TopicPartition,
    kafka_at,
)
from services.common.messages import Command, Observation, ResourceChanged, ResourceGone, ResyncCompleted, SyncMoved
from services.common.settings import KafkaSettings

CLASSES: Mapping[str, type[Command] | type[Observation]] = {COMMANDS: Command, OBSERVATIONS: Observation}
"""What the topics hold that are keyed by tenant."""
IDENTITY = {
    ENGINE: ("engine_instance_id", "kind", "namespace", "name"),
    WORKSPACE: ("workspace", "namespace", "kind", "name"),
}
"""Columns of a streamed row's key."""
SIGNAL = "INSERT INTO debezium_signals VALUES (%s, 'execute-snapshot', %s)"

Subject = tuple[str, ...]
"""What a message is about: a resource, or an object of an engine instance."""


class Position(NamedTuple):
    """A message behind a letter, of the same tenant or of all."""

    offset: int
    message: Command | Observation | None
    """None: it cannot be understood."""


Codec = AvroCodec[Command] | AvroCodec[Observation]


class Judge:
    """Judges dead letters by what the log has behind them."""

    def __init__(self, settings: KafkaSettings, registry: SchemaRegistry) -> None:
        self._settings, self._registry = settings, registry

    def refusals(self, letters: Sequence[StoredLetter], *, has_database: bool) -> dict[str, str]:
        """Why a letter is not redriven, by its id; empty if it may be. Raises Unavailable."""
        done = {each.id: f"it was {each.done}" for each in letters if each.done}
        of_tenants = [each for each in letters if not each.done and each.letter.topic in CLASSES]
        of_rows = [each for each in letters if not each.done and each.letter.topic not in CLASSES]
        try:
            rows = {each.id: self._refusal_of_row(each, has_database=has_database) for each in of_rows}
            return done | rows | self._refusals_by_log(of_tenants)
        except Retry as error:
            raise Unavailable(f"{kafka_at(self._settings)}: {error}") from error

    def _refusal_of_row(self, stored: StoredLetter, *, has_database: bool) -> str:
        if table_of(stored.letter.topic) is None:
            return "no topic holds it: restart watcher and agents, which report everything again"
        if not has_database:
            return "its row is sent again from the database: set DATABASE_OWNER_URL"
        return "" if condition_of(stored, self._registry) else "its key cannot be understood"

    def _refusals_by_log(self, letters: Sequence[StoredLetter]) -> dict[str, str]:
        if not letters:
            return {}
        codecs: dict[str, Any] = {
            topic: AvroCodec(self._registry, message, value_subject(topic)) for topic, message in CLASSES.items()
        }
        firsts, behind = self._read_behind(letters, codecs)
        refused = {}
        for stored in letters:
            later = [*behind[stored.source, stored.letter.key], *behind[stored.source, None]]
            refused[stored.id] = refusal(stored, codecs[stored.letter.topic], firsts.get(stored.source, 0), later)
        return refused

    def _read_behind(
        self, letters: Sequence[StoredLetter], codecs: Mapping[str, Codec]
    ) -> tuple[dict[TopicPartition, int], dict[tuple[TopicPartition, bytes | None], list[Position]]]:
        """Where each log begins, and what it has behind the first letter, of the letters' tenants and of all."""
        starts: dict[TopicPartition, int] = {}
        for stored in letters:
            starts[stored.source] = min(stored.letter.offset, starts.get(stored.source, stored.letter.offset))
        keys = {stored.letter.key for stored in letters} | {None}
        behind: dict[tuple[TopicPartition, bytes | None], list[Position]] = defaultdict(list)
        with PartitionReader(self._settings, CLIENT) as reader:
            firsts, ends = reader.first_offsets(starts), reader.end_offsets(starts)
            begin = {source: max(start, firsts.get(source, 0)) for source, start in starts.items()}
            for message in reader.read_messages(ends, begin):
                if message.key in keys:
                    decoded = _decoded(message, codecs[message.topic])
                    behind[message.tracked.source, message.key].append(Position(message.offset, decoded))
        return firsts, behind


def refusal(stored: StoredLetter, codec: Codec, first: int, later: Iterable[Position]) -> str:
    """Why a letter of a topic that is keyed by tenant is not redriven; empty if it may be.

    Args:
        stored: the letter.
        codec: of its topic.
        first: offset of the first message that its partition still has.
        later: what the partition has of its tenant, or of all tenants.
    """
    letter = stored.letter
    try:
        message = codec.decode_message(letter.value)
    except Poison as error:
        return f"it cannot be understood yet: {error}"
    about = subject(message)
    if about is None:
        return "the end of a list is not sent again: restart the watcher, which lists anew"
    if letter.offset < first:
        return f"its log begins at {first} by now: what came behind it is not known"
    newer = (each for each in later if each.offset > letter.offset and supersedes(each.message, message))
    superseding = next(newer, None)
    if superseding is None:
        return ""
    what = "cannot be understood, and may be newer" if superseding.message is None else "is newer"
    return f"superseded: the message at {superseding.offset} {what}"


def subject(message: Command | Observation) -> Subject | None:
    """What ``message`` is about; None if that is not one thing."""
    match message:
        case Command(event=ResourceChanged() | ResourceGone() as event):
            return (message.workspace, message.namespace, event.kind, event.name)
        case Observation(event=SyncMoved() as moved):
            return (message.engine_instance_id, message.kind, message.name, moved.run)
        case Observation():
            return (message.engine_instance_id, message.kind, message.name)
        case _:
            return None


def supersedes(later: Command | Observation | None, earlier: Command | Observation) -> bool:
    """Whether ``later``, which came behind ``earlier``, makes it old: it is about the same, or may be."""
    match later, earlier:
        case (None, _):
            return True
        case (Command(event=ResyncCompleted() as marker), Command(event=ResourceChanged() as changed)):
            is_of_list = (later.source, marker.kind) == (earlier.source, changed.kind)
            return is_of_list and marker.epoch > changed.epoch
        case _:
            return subject(later) is not None and subject(later) == subject(earlier)


def send_letters(
    publisher: Publisher, letters: Iterable[StoredLetter], registry: SchemaRegistry, database: str | None
) -> None:
    """Redrive ``letters``, each of which may be, in the order in which they were written. Raises Retry.

    1. The message, or the signal, is sent.   Crash: the letter is still there, and superseded by its own message.
    2. The letter is marked as redriven.
    """
    for stored in sorted(letters, key=lambda each: (each.source, each.letter.offset)):
        letter = stored.letter
        if letter.topic in CLASSES:
            headers = dict(letter.headers)
            publisher.send_message(letter.topic, letter.key, letter.value, headers, letter.partition).result()
        elif database is not None:
            _signal(database, stored, registry)
        mark_done(publisher, stored, "redriven")


def table_of(topic: str) -> str | None:
    """The table whose rows ``topic`` streams; None if it streams none."""
    if topic == ENGINE:
        return "public.engine_resources"
    if topic == WORKSPACE:
        return "public.workspace_resources"
    if topic.startswith(f"{WORKSPACE}."):
        return f"public.workspace_resources_{topic.removeprefix(f'{WORKSPACE}.')}"
    return None


def condition_of(stored: StoredLetter, registry: SchemaRegistry) -> str:
    """The condition by which the database finds the row of a letter; empty if its key cannot be decoded."""
    key = row_of(stored.letter.key, registry)
    columns = IDENTITY[ENGINE if stored.letter.topic == ENGINE else WORKSPACE]
    if not all(isinstance(key.get(column), str) for column in columns):
        return ""
    return " AND ".join(f"{column} = {sql.Literal(key[column]).as_string(None)}" for column in columns)


def _signal(database: str, stored: StoredLetter, registry: SchemaRegistry) -> None:
    table = table_of(stored.letter.topic)
    condition = {"data-collection": table, "filter": condition_of(stored, registry)}
    request = {"type": "incremental", "data-collections": [table], "additional-conditions": [condition]}
    with connected(database) as connection:
        connection.execute(SIGNAL, (str(uuid.uuid4()), json.dumps(request)))


def _decoded(message: ConsumedMessage, codec: Codec) -> Command | Observation | None:
    try:
        return codec.decode_message(message.value)
    except Poison:
        return None
