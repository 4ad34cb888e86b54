"""Waits at the start of a service that sends messages: for Kafka with its topics, and for the schema registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.common.avro import AvroCodec, SchemaRegistry, decode_record, value_subject
from services.common.kafka import DEAD_LETTERS, kafka_at
from services.common.messages import DeadLetter
from services.common.messages.compiled import StreamedRow
from services.common.settings import ServiceSettings
from services.common.startup import await_dependency

MessageT = TypeVar("MessageT")
RowT = TypeVar("RowT", bound=StreamedRow)


@dataclass(frozen=True, slots=True)
class Messaging(Generic[MessageT]):
    """The schema registry, and codecs of what a service sends. Their schemas are registered."""

    registry: SchemaRegistry
    messages: AvroCodec[MessageT]
    dead_letters: AvroCodec[DeadLetter]


def await_messaging(
    settings: ServiceSettings, message: type[MessageT], topic: str, check_topics: Callable[[], object]
) -> Messaging[MessageT]:
    """Wait for Kafka and the registry. ``message`` is what the service sends, with the schema of ``topic``.

    Raises what ``check_topics`` raises, Unavailable, and InvalidConfiguration if a schema is not registered.
    """
    registry, timeout = SchemaRegistry(settings), settings.start_timeout_seconds
    await_dependency(kafka_at(settings), check_topics, timeout)
    return await_dependency(registry.name, lambda: _messaging(registry, message, topic), timeout)


def _messaging(registry: SchemaRegistry, message: type[MessageT], topic: str) -> Messaging[MessageT]:
    return Messaging(
        registry,
        AvroCodec(registry, message, value_subject(topic)),
        AvroCodec(registry, DeadLetter, value_subject(DEAD_LETTERS)),
    )


def row_of(row: type[RowT], registry: SchemaRegistry, key: bytes | None, value: bytes | None) -> RowT:
    """The row in a message: a value, or a tombstone of a deleted row, which has only a key.

    Raises Poison, and Retry while the schema is unavailable.
    """
    if value is None:
        return row.from_tombstone(decode_record(registry, key))
    return row.from_record(decode_record(registry, value))
