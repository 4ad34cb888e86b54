"""Encodes and decodes messages: Avro in the Confluent wire format (a zero byte, a 4-byte schema id, the datum).

fastavro with schemas that are parsed once per id decodes several times as fast as the registry client's deserializer,
which validates and resolves schemas for each message.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import fastavro

from services.common.avro.schema_registry import SchemaRegistry
from services.common.errors import Poison

MessageT = TypeVar("MessageT")

_HEADER = struct.Struct(">bI")
_MAGIC = 0
NAMESPACE = "gitops.v1"


def frame(schema_id: int, datum: bytes) -> bytes:
    """Put the Confluent header before an Avro datum."""
    return _HEADER.pack(_MAGIC, schema_id) + datum


def unframe(message: bytes | None) -> tuple[int, bytes]:
    """Split a message into schema id and datum. Raises Poison if it has no such header."""
    if message is None or len(message) < _HEADER.size or message[0] != _MAGIC:
        raise Poison("message is not in the Confluent wire format (zero byte, schema id)")
    _, schema_id = _HEADER.unpack_from(message)
    return schema_id, message[_HEADER.size :]


class AvroCodec(Generic[MessageT]):
    """Encodes and decodes one message class under the schema registered for ``subject``."""

    def __init__(self, registry: SchemaRegistry, message: type[MessageT], subject: str) -> None:
        """``message`` is a dataclass whose fields are those of the schema ``subject`` names."""
        self._registry = registry
        self._message = message
        self._schema = registry.local_schema(subject)
        self._schema_id = registry.id_of(subject)
        self._build = _builder(typing.cast("Any", message))

    def encode_message(self, message: MessageT) -> bytes:
        """Bytes of ``message`` with its schema's id."""
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, _datum(message))
        return frame(self._schema_id, buffer.getvalue())

    def decode_message(self, message: bytes | None) -> MessageT:
        """Decode a message that any compatible version wrote. Raises Poison, Retry (registry away)."""
        record = decode_record(self._registry, message, self._schema)
        return typing.cast("MessageT", self._build(record))


def decode_record(registry: SchemaRegistry, message: bytes | None, reader: Any = None) -> Any:
    """Decode a framed datum into plain values; records of a union come as ``(name, fields)``.

    Raises Poison if the bytes do not match their schema, Retry if the registry does not answer.
    """
    schema_id, datum = unframe(message)
    return _read(datum, registry.schema_by_id(schema_id), reader, f"schema {schema_id}")


def decode_known(schema: Any, message: bytes | None) -> Any:
    """Decode a framed datum with this parsed schema, whichever id it has, without the registry.

    Raises Poison if the bytes do not match the schema.
    """
    _, datum = unframe(message)
    return _read(datum, schema, None, "the schema that is expected")


def _read(datum: bytes, writer: Any, reader: Any, schema: str) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(datum), writer, reader, return_record_name=reader is not None)
    except Exception as error:  # fastavro raises whatever its C reader stumbles over: EOF, index, type, unicode
        raise Poison(f"datum does not fit {schema}: {error!r}") from error


def _datum(value: Any) -> dict[str, Any]:
    return {field.name: _member(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _member(value: Any) -> Any:
    """A nested record as a member of a union, whose branch fastavro needs by name."""
    if dataclasses.is_dataclass(value):
        return (f"{NAMESPACE}.{type(value).__name__}", _datum(value))
    return list(value) if isinstance(value, tuple) else value


@cache
def _builder(message: Any) -> Callable[[Mapping[str, Any]], Any]:
    """A function from decoded fields to ``message``. It finds union members by their record name."""
    hints = typing.get_type_hints(message)
    branches = {name: _branches(hint) for name, hint in hints.items()}
    plain = [name for name, classes in branches.items() if not classes]
    unions = [name for name, classes in branches.items() if classes]

    def build(fields: Mapping[str, Any]) -> Any:
        values = {name: _plain(fields[name]) for name in plain}
        for name in unions:
            record, content = fields[name]
            values[name] = _builder(branches[name][record])(content)
        return message(**values)

    return build


def _branches(hint: Any) -> dict[str, Any]:
    members: tuple[Any, ...] = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    records = [member for member in members if isinstance(member, type) and dataclasses.is_dataclass(member)]
    return {f"{NAMESPACE}.{record.__name__}": record for record in records}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
