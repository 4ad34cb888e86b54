"""Decides which dead letters may be redriven: a tenant's changes keep their order.

A redriven message is appended behind all that its partition holds by then. That is in order only if nothing newer is
there about the same resource: otherwise the letter is superseded, and would bring yesterday back. So the log is read
from the letter on. A letter stays where it is if it is superseded, or if that cannot be known. It also stays if the log
has another message where the letter says to be from: services write letters, and one that was taken over may lie.

:mod:`dlq` asks for all letters that are meant; :mod:`redrive` asks again before it sends each. :class:`LogJudge` is
pure; :class:`Judge` shows it the logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from services.cli.dead_letters.row_snapshots import condition_of, table_of
from services.cli.dead_letters.stored_letters import StoredLetter
from services.cli.sending import CLIENT
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import (
    COMMANDS,
    FLEET_ORDERS,
    OBSERVATIONS,
    ConsumedMessage,
    PartitionReader,
    TopicPartition,
    existing_partitions,
    kafka_at,
    log_of,
)
from services.common.messages import (
    Command,
    DeadLetter,
    FleetOrder,
    Observation,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    SyncMoved,
)
from services.common.settings import KafkaSettings

Message = Command | Observation | FleetOrder
CLASSES: Mapping[str, type[Message]] = {COMMANDS: Command, OBSERVATIONS: Observation, FLEET_ORDERS: FleetOrder}
"""What each log holds: a message that was given up is sent to its topic again."""

Subject = tuple[str, ...]
"""What a message is about: a resource, an object of an engine instance, or what an order names."""
Codec = AvroCodec[Command] | AvroCodec[Observation] | AvroCodec[FleetOrder]

NOT_THERE = "its log has it no more: what came behind it is not known"
READS = 2
"""Before a letter is sent: what came since the last look, then the little that came meanwhile."""


@dataclass(slots=True)
class Candidate:
    """A letter that may be redriven, as far as its own message tells."""

    letter: DeadLetter
    message: Message
    refusal: str = NOT_THERE

    def compare(self, message: ConsumedMessage) -> None:
        """``message`` is what the log has where the letter says to be from: whoever writes letters may lie."""
        is_it = (message.key, message.value) == (self.letter.key, self.letter.value)
        self.refusal = "" if is_it else "its log has another message there"


class LogJudge:
    """Judges letters of logs by the messages from the letters on, which others show it.

    Of these messages it remembers, for each letter, only where the first one is that supersedes it.
    """

    def __init__(self, codecs: Mapping[str, Codec]) -> None:
        self._codecs = codecs
        self._refused: dict[str, str] = {}
        self._candidates: dict[str, Candidate] = {}
        self._of_source: dict[TopicPartition, list[Candidate]] = defaultdict(list)
        self._of_tenant: dict[tuple[TopicPartition, bytes | None], list[Candidate]] = defaultdict(list)

    def add_letter(self, stored: StoredLetter, first: int, end: int) -> None:
        """Judge this letter, too. Its log has the messages from ``first`` to ``end``."""
        letter = stored.letter
        try:
            message = self._codecs[log_of(letter.topic)].decode_message(letter.value)
        except Poison as error:
            self._refused[stored.id] = f"it cannot be understood yet: {error}"
            return
        if subject(message) is None:
            self._refused[stored.id] = (
                "it is about no resource: restart the watcher, which lists anew, or run 'gitopsctl look-again'"
            )
        elif not first <= letter.offset < end:
            self._refused[stored.id] = NOT_THERE
        else:
            candidate = Candidate(letter, message)
            self._candidates[stored.id] = candidate
            self._of_source[stored.source].append(candidate)
            self._of_tenant[stored.source, letter.key].append(candidate)

    def starts(self) -> dict[TopicPartition, int]:
        """The offset from which each log must be shown."""
        return {source: min(each.letter.offset for each in found) for source, found in self._of_source.items()}

    def see(self, message: ConsumedMessage) -> None:
        """The log has this message, behind all that was shown of it."""
        source = message.tracked.source
        of_source = self._of_source.get(source, [])
        for each in of_source:
            if each.letter.offset == message.offset:
                each.compare(message)
        of_tenant = of_source if message.key is None else self._of_tenant.get((source, message.key), [])
        older = [each for each in of_tenant if each.letter.offset < message.offset and not each.refusal]
        if not older:
            return
        decoded = _decoded(message, self._codecs[log_of(message.topic)])
        what = "cannot be understood, and may be newer" if decoded is None else "is newer"
        for each in older:
            if supersedes(decoded, each.message):
                each.refusal = f"superseded: the message at {message.offset} {what}"

    def is_removal(self, message: ConsumedMessage, id_: str) -> bool:
        """Whether ``message`` says that this letter's very resource is gone."""
        candidate = self._candidates[id_]
        if message.key != candidate.letter.key:
            return False
        match candidate.message, _decoded(message, self._codecs[log_of(message.topic)]):
            case Command(event=ResourceChanged(uid=uid)) as changed, Command(event=ResourceGone(uid=gone)) as removed:
                return (changed.workspace, changed.namespace, uid) == (removed.workspace, removed.namespace, gone)
        return False

    def refusal(self, id_: str) -> str:
        """Why this letter is not redriven, by all that was shown; empty if it may be."""
        candidate = self._candidates.get(id_)
        return self._refused[id_] if candidate is None else candidate.refusal


class Judge:
    """Judges dead letters by what the log has behind them, and again before each is sent."""

    def __init__(self, settings: KafkaSettings, registry: SchemaRegistry) -> None:
        self._settings, self._registry = settings, registry
        codecs: dict[str, Any] = {
            log: AvroCodec(registry, message, value_subject(log)) for log, message in CLASSES.items()
        }
        self._log = LogJudge(codecs)
        self._reader = PartitionReader(settings, CLIENT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def refusals(self, letters: Sequence[StoredLetter], *, has_database: bool) -> dict[str, str]:
        """Why a letter is not redriven, by its id; empty if it may be. Raises Unavailable."""
        done = {each.id: f"it was {each.done}" for each in letters if each.done}
        of_logs = [each for each in letters if not each.done and log_of(each.letter.topic) in CLASSES]
        of_rows = [each for each in letters if not each.done and log_of(each.letter.topic) not in CLASSES]
        try:
            rows = {each.id: self._refusal_of_row(each, has_database=has_database) for each in of_rows}
            self._read_logs(of_logs)
        except Retry as error:
            raise Unavailable(f"{kafka_at(self._settings)}: {error}") from error
        return done | rows | {each.id: self._log.refusal(each.id) for each in of_logs}

    def refusal_by_now(self, stored: StoredLetter) -> str:
        """Why a letter is not redriven after all, by what its log has by now; empty if it may be. Raises Retry."""
        if log_of(stored.letter.topic) not in CLASSES:
            return ""
        for _ in range(READS):
            self._read_on([stored.source])
        return self._log.refusal(stored.id)

    def removal_before(self, stored: StoredLetter, offset: int) -> ConsumedMessage | None:
        """The message after the last look and before ``offset`` by which a letter's resource is gone. Raises Retry."""
        found = None
        for message in self._reader.read_on({stored.source: offset}):
            self._log.see(message)
            if message.tracked.source == stored.source and message.offset < offset:
                found = message if self._log.is_removal(message, stored.id) else found
        return found

    def _refusal_of_row(self, stored: StoredLetter, *, has_database: bool) -> str:
        if table_of(stored.letter.topic) is None:
            return "no topic holds it: restart watcher and agents, which report everything again"
        if not has_database:
            return "its row is sent again from the database: set DATABASE_OWNER_URL"
        return "" if condition_of(stored, self._registry) else "its key cannot be understood"

    def _read_logs(self, letters: Sequence[StoredLetter]) -> None:
        """A letter may name a topic or a partition that does not exist: nobody can be asked for its offsets."""
        if not letters:
            return
        counts = existing_partitions(self._settings)
        sources = {each.source for each in letters if 0 <= each.letter.partition < counts.get(each.letter.topic, 0)}
        firsts, ends = self._reader.first_offsets(sources), self._reader.end_offsets(sources)
        for stored in letters:
            self._log.add_letter(stored, firsts.get(stored.source, 0), ends.get(stored.source, 0))
        starts = self._log.starts()
        self._reader.assign_partitions(starts)
        self._read_on(starts)

    def _read_on(self, sources: Iterable[TopicPartition]) -> None:
        for message in self._reader.read_on(self._reader.end_offsets(sources)):
            self._log.see(message)


def subject(message: Message) -> Subject | None:
    """What ``message`` is about; None if that is not one thing."""
    match message:
        case FleetOrder(order=order):
            return (FLEET_ORDERS, order.id)
        case Command(event=ResourceChanged() | ResourceGone() as event):
            return (message.workspace, message.namespace, event.kind, event.name)
        case Observation(event=SyncMoved() as moved):
            return (message.engine_instance_id, message.kind, message.name, moved.run)
        case Observation():
            return (message.engine_instance_id, message.kind, message.name)
        case _:
            return None


def supersedes(later: Message | None, earlier: Message) -> bool:
    """Whether ``later``, which came behind ``earlier``, is about the same thing, or may be."""
    match later, earlier:
        case (None, _):
            return True
        case (Command(event=ResyncCompleted() as marker), Command(event=ResourceChanged() as changed)):
            is_of_list = (later.source, marker.kind) == (earlier.source, changed.kind)
            return is_of_list and marker.epoch > changed.epoch
        case _:
            return subject(later) is not None and subject(later) == subject(earlier)


def _decoded(message: ConsumedMessage, codec: Codec) -> Message | None:
    try:
        return codec.decode_message(message.value)
    except Poison:
        return None
