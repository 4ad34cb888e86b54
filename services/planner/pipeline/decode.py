"""Turns messages into events. The loop calls this for each batch, before it reads or writes anything else.

A message that cannot be understood becomes a dead letter. The dead letter is delivered before this returns, because
only then may the offsets pass the message. If it cannot be delivered, the service stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import orjson

from services.common.api_resource import SECRET
from services.common.avro import AvroCodec
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    DeadLetterQueue,
    OffsetTracker,
    TopicPartition,
    TrackedOffset,
    log_of,
    reporting_cluster,
    tenant_key,
)
from services.common.messages import (
    Checked,
    Command,
    EngineHealth,
    EngineInstallation,
    Failed,
    FleetOrder,
    Health,
    InstallationPhase,
    Observation,
    OrphansKept,
    ResourceChanged,
    ResourceGone,
    StatusReported,
)
from services.common.telemetry import TRACEPARENT, traceparent
from services.kinds.registry import REGISTRY
from services.planner.domain.events import Event
from services.planner.rows.consumption import ParkedEvent, ParkedTenant

Codec = AvroCodec[Command] | AvroCodec[Observation] | AvroCodec[FleetOrder]

DELIVERY_SECONDS = 150.0
"""Longer than the producer itself tries."""
TICK = timedelta(milliseconds=1)
"""The resolution of the timestamps that brokers give to messages."""
MAX_VERSION_DIGITS = 64
HEALTHS = {each.value for each in Health} - {Health.UNKNOWN.value}
"""The healths that an agent may report of its instance."""
PHASES = {each.value for each in InstallationPhase}
"""The phases of an installation that a provisioner may report."""
KEPT = "parked_events"
"""The topic that dead letters name for events of parked tenants, which come from this table."""


class Decoder:
    """Decodes the messages of each log by its codec."""

    def __init__(
        self,
        codecs: Mapping[str, Codec],
        dead_letters: DeadLetterQueue,
        limit: DeadLetterLimit,
        offsets: OffsetTracker,
    ) -> None:
        """``codecs``: by topic; ``offsets``: where messages that are given up are acknowledged."""
        self._codecs, self._dead_letters, self._limit, self._offsets = codecs, dead_letters, limit, offsets

    def decode_messages(self, messages: Iterable[ConsumedMessage]) -> list[Event]:
        """The events in ``messages``, without messages that were given up, which a retried batch still contains.

        Raises Retry (the registry does not answer, or too many dead letters), Unavailable (a dead letter was not
        written).
        """
        events, refused, understood = [], [], set[bytes | None]()
        for message in messages:
            try:
                if not self._offsets.is_acknowledged(message.tracked):
                    events.append(decode_event(message, self._codecs))
                    understood.add(message.key)
            except Poison as error:
                refused.append((message, error))
        if refused:
            self._limit.count_handled(understood)  # or a few that are refused would look like most
            self.give_up_messages(refused)
        return events

    def count_handled(self, messages: Iterable[ConsumedMessage]) -> None:
        """Count messages that were saved. Those given up do not count, nor those that the database may still refuse."""
        keys: dict[bool, set[bytes | None]] = {True: set(), False: set()}
        for message in messages:
            keys[self._offsets.is_acknowledged(message.tracked)].add(message.key)
        self._limit.count_handled(keys[False] - keys[True])

    def give_up_messages(self, refused: Sequence[tuple[ConsumedMessage, Poison]]) -> None:
        """Make dead letters of these messages, and acknowledge the messages once the letters are delivered.

        Raises TooManyDeadLetters, and Unavailable if the letters cannot be delivered.
        """
        if refused:
            self._limit.require_room({message.key for message, _ in refused}, refused[0][1])
        for letter in [self._send(message, error) for message, error in refused]:
            _await(letter)
        for message, _ in refused:
            self._offsets.acknowledge_offset(message.tracked)

    def give_up_kept(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent], error: Poison) -> None:
        """Deliver dead letters of parked events, with the text of the rows, and without an offset."""
        key = tenant_key(tenant.workspace, tenant.namespace)
        messages = [
            ConsumedMessage(
                TrackedOffset(TopicPartition(KEPT, row.partition), -1, -1),
                key,
                row.message.encode(),
                [(TRACEPARENT, row.trace_id.encode())],
                0.0,
            )
            for row in rows
        ]
        for letter in [self._send(message, error) for message in messages]:
            _await(letter)

    def _send(self, message: ConsumedMessage, error: Poison) -> Future[int]:
        try:
            return self._dead_letters.send_letter(message, error, datetime.now(UTC))
        except Retry as full:
            raise Unavailable(f"a dead letter cannot be written: {full}") from full


def decode_event(message: ConsumedMessage, codecs: Mapping[str, Codec]) -> Event:
    """The event in ``message``, by the codec of its log. Raises Poison, and Retry (the registry does not answer)."""
    codec = codecs.get(log_of(message.topic))
    if codec is None:
        raise Poison(f"topic {message.topic} is not one of ours")
    decoded = _of_brokers_time(
        _checked(codec.decode_message(message.value)), datetime.fromtimestamp(message.timestamp, UTC)
    )
    return Event(decoded, message.partition, traceparent(message.headers), reporting_cluster(message.topic))


def _of_brokers_time(
    message: Command | Observation | FleetOrder, taken_at: datetime
) -> Command | Observation | FleetOrder:
    """The report, at the time when the brokers took it: an agent's clock may be set back."""
    match message:
        case FleetOrder():
            return _not_of_future(message, taken_at)
        case Observation(event=EngineHealth() | EngineInstallation() | OrphansKept()):
            return replace(message, observed_at=taken_at)
        case _:
            return message


def _not_of_future(order: FleetOrder, taken_at: datetime) -> FleetOrder:
    """The order, at no later time than that at which the brokers took it.

    While an order of the future was the newest, no other order would count. An earlier time stays: an order that is
    sent again is the same order.
    """
    return replace(order, ordered_at=min(order.ordered_at, taken_at + TICK))


def _await(letter: Future[int]) -> None:
    try:
        letter.result(timeout=DELIVERY_SECONDS)
    except (Retry, TimeoutError) as error:
        raise Unavailable(f"a dead letter cannot be written: {error}") from error


def _checked(message: Command | Observation | FleetOrder) -> Command | Observation | FleetOrder:
    match message:
        case Command():
            return _checked_command(message)
        case Observation():
            return _checked_observation(message)
        case FleetOrder():
            return _checked_order(message)


def _checked_command(command: Command) -> Command:
    match command.event:
        case ResourceChanged(kind=kind) | ResourceGone(kind=kind) if kind not in REGISTRY:
            raise Poison(f"there are no rules for kind '{kind[:64]}'")
        case ResourceChanged() | ResourceGone() as state:
            _orderly(state.resource_version)
            _storable(
                command.source, command.workspace, command.namespace, state.name, state.uid, state.resource_version
            )
            if state.kind == SECRET.kind and isinstance(state, ResourceChanged):
                _parsable(state.spec)
            if isinstance(state, ResourceChanged):
                for text in filter(None, (state.recalled_status, state.named_class)):
                    _parsable(text)
        case _:
            _storable(command.source, command.workspace, command.namespace)
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
        case OrphansKept(objects=objects, finished=finished):
            _storable(*objects, *finished)
        case EngineHealth() as health:
            _require_health(health)
        case EngineInstallation(phase=phase, version=version, message=message):
            _storable(version, message)
            if phase not in PHASES:
                raise Poison(f"a provisioner reports no phase '{phase[:64]}'")
    return observation


def _require_health(health: EngineHealth) -> None:
    """Raises Poison unless an agent may report this health."""
    _storable(health.reason, health.message, health.version)
    if health.queue < 0:
        raise Poison(f"no queue has {health.queue} Applications")
    if health.health not in HEALTHS:
        raise Poison(f"an agent reports no health '{health.health[:64]}'")


def _checked_order(order: FleetOrder) -> FleetOrder:
    values = asdict(order.order).values()
    lists = (each for value in values if isinstance(value, tuple | list) for each in value)
    _storable(order.actor, *(value for value in (*values, *lists) if isinstance(value, str)))
    return order


def _orderly(resource_version: str) -> None:
    """Raises Poison unless the version is a 64-bit number. Python refuses to read numbers of thousands of digits."""
    if len(resource_version) > MAX_VERSION_DIGITS:
        raise Poison("a resource version is too long to be one")


def _storable(*texts: str) -> None:
    """Raises Poison if a text has the one character that PostgreSQL cannot store."""
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
