"""From messages to events. Called by the service for each batch, before anything is read or written.

What cannot be understood goes to the dead letters, and is there before this returns: only then may the offsets pass
it. A dead letter that cannot be written stops the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime

import orjson
from confluent_kafka import Message

from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import DeadLetters
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import (
    AvroCodec,
    Checked,
    Command,
    Failed,
    Observation,
    ResourceChanged,
    ResourceGone,
    StatusReported,
)
from services.common.telemetry import traceparent
from services.planner.consume import place_of
from services.planner.events import Event
from services.planner.kinds.names import GITOPS_DEPLOYMENT, RESOURCE_KINDS, SECRET
from services.planner.offsets import TopicPartition

Codec = AvroCodec[Command] | AvroCodec[Observation]

KINDS = RESOURCE_KINDS | {GITOPS_DEPLOYMENT}

DELIVERY_SECONDS = 150.0
"""Longer than the producer itself tries."""
MAX_VERSION_DIGITS = 64


class Decoder:
    """Knows the codec of each topic."""

    def __init__(self, codecs: Mapping[str, Codec], dead_letters: DeadLetters) -> None:
        """``codecs``: what each topic holds."""
        self._codecs, self._dead_letters = codecs, dead_letters
        self._given_up: dict[TopicPartition, int] = {}

    def __call__(self, messages: Iterable[Message]) -> list[Event]:
        """The events in ``messages``. Raises Retry (registry away), Unavailable (dead letter not written)."""
        events, refused = [], []
        for message in messages:
            try:
                events.append(self._event(message))
            except Poison as error:
                refused.append((message, error))
        self.give_up(refused)
        return events

    def give_up(self, refused: Sequence[tuple[Message, Poison]]) -> None:
        """Send these to the dead letters, each once, and wait until they are there."""
        sent = [self._send(message, error) for message, error in refused if not self._is_given_up(message)]
        for letter in sent:
            _await(letter)
        for message, _ in refused:
            self._given_up[place_of(message)] = message.offset() or 0

    def _event(self, message: Message) -> Event:
        codec = self._codecs.get(message.topic() or "")
        if codec is None:
            raise Poison(f"topic {message.topic()} is not one of ours")
        decoded = codec.decode(_value(message))
        checked = _checked_command(decoded) if isinstance(decoded, Command) else _checked_observation(decoded)
        return Event(checked, message.partition() or 0, traceparent(_headers(message).items()))

    def _is_given_up(self, message: Message) -> bool:
        """A batch that is tried again, because the database was away, has sent its dead letters already."""
        return (message.offset() or 0) <= self._given_up.get(place_of(message), -1)

    def _send(self, message: Message, error: Poison) -> Future[int]:
        topic, partition = place_of(message)
        source = SourceMessage(
            topic=topic,
            partition=partition,
            offset=message.offset() or 0,
            key=message.key(),
            value=_value(message),
            headers=_headers(message),
        )
        try:
            return self._dead_letters.send(source, error, datetime.now(UTC))
        except Retry as full:
            raise Unavailable(f"a dead letter cannot be written: {full}") from full


def _value(message: Message) -> bytes | None:
    value = message.value()
    return value.encode() if isinstance(value, str) else value


def _headers(message: Message) -> dict[str, bytes]:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return {name: value.encode() if isinstance(value, str) else value or b"" for name, value in pairs}


def _await(letter: Future[int]) -> None:
    try:
        letter.result(timeout=DELIVERY_SECONDS)
    except (Retry, TimeoutError) as error:
        raise Unavailable(f"a dead letter cannot be written: {error}") from error


def _checked_command(command: Command) -> Command:
    match command.event:
        case ResourceChanged(kind=kind) | ResourceGone(kind=kind) if kind not in KINDS:
            raise Poison(f"there are no rules for kind '{kind[:64]}'")
        case ResourceChanged() | ResourceGone() as state:
            _orderly(state.resource_version)
            _storable(
                command.source, command.workspace, command.namespace, state.name, state.uid, state.resource_version
            )
            if state.kind == SECRET and isinstance(state, ResourceChanged):
                _parsable(state.spec)
        case _:
            _storable(command.source)
    return command


def _checked_observation(observation: Observation) -> Observation:
    _storable(observation.workspace, observation.namespace, observation.name, observation.engine_instance_id)
    match observation.event:
        case StatusReported(status=status, resource_version=version):
            _orderly(version)
            _storable(version)
            _parsable(status)
        case Failed(digest=digest) | Checked(digest=digest):
            _storable(digest)
    return observation


def _orderly(resource_version: str) -> None:
    """Kubernetes' resource versions are 64-bit numbers; Python refuses to read one of thousands of digits."""
    if len(resource_version) > MAX_VERSION_DIGITS:
        raise Poison("a resource version is too long to be one")


def _storable(*texts: str) -> None:
    """PostgreSQL holds any character but one."""
    if any("\0" in text for text in texts):
        raise Poison("a name holds a NUL character")


def _parsable(text: str) -> None:
    try:
        parsed = orjson.loads(text)
        orjson.dumps(parsed)  # it refuses nesting that it reads
    except (orjson.JSONDecodeError, TypeError) as error:
        raise Poison(f"status or content is not JSON: {error}") from error
    if not isinstance(parsed, dict) or "\0" in text:
        raise Poison("status or content is not a JSON object")
