"""The dead letters that are kept, and what operators have done about each.

A topic has no way to take one message out of it. So what is done about a letter is a message of the same topic, without
a value, whose headers name the letter. It is kept for as long as the letter, and somewhat longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from services.cli.sending import CLIENT
from services.common.avro import AvroCodec, SchemaRegistry, decode_record, value_subject
from services.common.errors import InvalidConfiguration, Poison, Retry, Unavailable
from services.common.json_values import dict_of, text_of
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    OBSERVATIONS,
    ConsumedMessage,
    PartitionReader,
    Publisher,
    TopicPartition,
    kafka_at,
    log_of,
)
from services.common.messages import DeadLetter
from services.common.settings import KafkaSettings

LETTER, DONE = "gitops-dead-letter", "gitops-done"
"""Headers of a message that says what was done about a letter: its id, and what."""
KEYED_BY_TENANT = frozenset({COMMANDS, OBSERVATIONS, "parked_events"})
"""Logs. The last is no topic: it stands for the stored events of a parked tenant."""

MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of messages in memory at once: a command has all that it acts on."""

Done = Literal["redriven", "dropped"]


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter, its place, and what was done about it."""

    id: str
    """Its partition and offset among the dead letters."""
    letter: DeadLetter
    tenant: str
    """Workspace and namespace; empty if the letter does not tell."""
    done: str
    """What was done about it; empty: nothing yet."""

    @property
    def source(self) -> TopicPartition:
        """Where the message was consumed."""
        return TopicPartition(self.letter.topic, self.letter.partition)

    @property
    def size(self) -> int:
        """Bytes of its message."""
        return len(self.letter.key or b"") + len(self.letter.value or b"")


class LetterFilter(NamedTuple):
    """Which letters are wanted; an empty field leaves all."""

    ids: tuple[str, ...] = ()
    topic: str = ""
    service: str = ""
    tenant: str = ""
    reason: str = ""
    """Part of it."""
    since: datetime | None = None

    def matches(self, stored: StoredLetter) -> bool:
        """Whether ``stored`` is one of these letters."""
        letter = stored.letter
        wanted = ((self.topic, letter.topic), (self.service, letter.service), (self.tenant, stored.tenant))
        return (
            (not self.ids or stored.id in self.ids)
            and all(not value or value == found for value, found in wanted)
            and self.reason.casefold() in letter.error.casefold()
            and (self.since is None or letter.failed_at >= self.since)
        )


def read_letters(
    settings: KafkaSettings, registry: SchemaRegistry, wanted: LetterFilter, *, with_content: bool = True
) -> list[StoredLetter]:
    """The letters that ``wanted`` matches, oldest first; ``with_content``: with the messages that they are about.

    Others are not kept in memory. Raises as :func:`chosen`, and Unavailable.
    """
    done: dict[str, str] = {}
    try:
        letters = _stored_letters(_messages(settings), registry, done)
        matching = chosen(letters if with_content else map(without_content, letters), wanted)
    except Retry as error:
        raise Unavailable(f"{kafka_at(settings)}: {error}") from error
    return [replace(stored, done=done.get(stored.id, "")) for stored in matching]


def without_content(stored: StoredLetter) -> StoredLetter:
    """A letter without the message that it is about, which may be megabytes."""
    return replace(stored, letter=replace(stored.letter, key=None, value=None, headers={}))


def chosen(letters: Iterable[StoredLetter], wanted: LetterFilter) -> list[StoredLetter]:
    """The letters that ``wanted`` matches. Raises InvalidConfiguration if an id is none, or they hold too much."""
    unknown = dict.fromkeys(wanted.ids)
    matching, size = [], 0
    for stored in letters:
        unknown.pop(stored.id, None)
        if wanted.matches(stored):
            matching.append(stored)
            size += stored.size
        if size > MOST_BYTES:
            raise InvalidConfiguration(
                f"the dead letters that match hold more than {MOST_BYTES // 1024**2} MiB of messages; "
                "take fewer at once: one --tenant, --service or --topic, or newer ones by --since"
            )
    if unknown:
        raise InvalidConfiguration(f"there is no dead letter {', '.join(unknown)}; 'gitopsctl dlq list' shows them")
    return matching


def mark_done(publisher: Publisher, stored: StoredLetter, what: Done) -> None:
    """Write what was done about a letter. Raises Retry."""
    publisher.send_message(DEAD_LETTERS, None, None, {LETTER: stored.id, DONE: what}).result()


def tenant_of(letter: DeadLetter, registry: SchemaRegistry) -> str:
    """Workspace and namespace of a letter: from its key, or from the row that was streamed if that can be decoded."""
    if log_of(letter.topic) in KEYED_BY_TENANT:
        return (letter.key or b"").decode(errors="replace")
    row = row_of(letter.value, registry)
    namespace = text_of(row.get("tenant_namespace")) or text_of(row.get("namespace"))
    return f"{text_of(row.get('workspace'))}/{namespace}" if row.get("workspace") else ""


def row_of(datum: bytes | None, registry: SchemaRegistry) -> dict[str, object]:
    """Key or value of a streamed row; empty if it cannot be decoded. Raises Retry if the registry does not answer."""
    try:
        return dict_of(decode_record(registry, datum))
    except Poison:
        return {}


def _stored_letters(
    messages: Iterable[ConsumedMessage], registry: SchemaRegistry, done: dict[str, str]
) -> Iterator[StoredLetter]:
    """The letters among ``messages``; what was done about them is put into ``done``, by their ids."""
    codec = AvroCodec(registry, DeadLetter, value_subject(DEAD_LETTERS))
    for message in messages:
        if message.value is None:
            headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
            done[headers.get(LETTER, "")] = headers.get(DONE, "")
        else:
            letter = _letter(message, codec)
            yield StoredLetter(f"{message.partition}/{message.offset}", letter, tenant_of(letter, registry), "")


def _letter(message: ConsumedMessage, codec: AvroCodec[DeadLetter]) -> DeadLetter:
    """The letter in a message; a message that holds none is shown like one, so that it can be dropped."""
    try:
        return codec.decode_message(message.value)
    except Poison as error:
        at = datetime.fromtimestamp(message.timestamp, UTC)
        place = (message.topic, message.partition, message.offset)
        return DeadLetter("unknown", *place, message.key, message.value, {}, f"not a dead letter: {error}", at)


def _messages(settings: KafkaSettings) -> Iterator[ConsumedMessage]:
    with PartitionReader(settings, CLIENT) as reader:
        yield from reader.read_messages(reader.end_offsets(reader.partitions_of(DEAD_LETTERS)))
