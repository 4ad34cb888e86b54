"""From messages to events. Called by the service for each batch, before anything is read or written.

What cannot be understood goes to the dead letters, and is there before this returns: only then may the offsets pass
it. A dead letter that cannot be written stops the service.
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
"""Brokers tell when they took a message in whole ones."""
MAX_VERSION_DIGITS = 64
TOLD = {each.value for each in Health} - {Health.UNKNOWN.value}
"""Of an instance by its agent."""
PHASES = {each.value for each in InstallationPhase}
"""Of an installation by its provisioner."""
KEPT = "parked_events"
"""Stands for the topic in dead letters of what was kept in this table."""


class Decoder:
    """Knows the codec of each log."""

    def __init__(
        self,
        codecs: Mapping[str, Codec],
        dead_letters: DeadLetterQueue,
        limit: DeadLetterLimit,
        offsets: OffsetTracker,
    ) -> None:
        """``codecs``: what each log holds; ``offsets``: where messages given up are acknowledged."""
        self._codecs, self._dead_letters, self._limit, self._offsets = codecs, dead_letters, limit, offsets

    def decode_messages(self, messages: Iterable[ConsumedMessage]) -> list[Event]:
        """The events in ``messages``, less those given up, which a batch that is tried again still holds.

        Raises Retry (registry away, or too many dead letters), Unavailable (dead letter not written).
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
        """These were saved, but for those given up: to be understood is not enough, the database may still refuse."""
        keys: dict[bool, set[bytes | None]] = {True: set(), False: set()}
        for message in messages:
            keys[self._offsets.is_acknowledged(message.tracked)].add(message.key)
        self._limit.count_handled(keys[False] - keys[True])

    def give_up_messages(self, refused: Sequence[tuple[ConsumedMessage, Poison]]) -> None:
        """Acknowledge these when their dead letters are delivered.

        Raises TooManyDeadLetters, and Unavailable if they cannot be delivered.
        """
        if refused:
            self._limit.require_room({message.key for message, _ in refused}, refused[0][1])
        for letter in [self._send(message, error) for message, error in refused]:
            _await(letter)
        for message, _ in refused:
            self._offsets.acknowledge_offset(message.tracked)

    def give_up_kept(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent], error: Poison) -> None:
        """Their dead letters are delivered when this returns; what they hold is as it was kept, at no offset."""
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
    """The event in ``message``, by the codec of its log. Raises Poison, and Retry (registry away)."""
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
    """Reports of instances are of the time at which the brokers took them: an agent's clock may be set back."""
    match message:
        case FleetOrder():
            return _not_of_future(message, taken_at)
        case Observation(event=EngineHealth() | EngineInstallation() | OrphansKept()):
            return replace(message, observed_at=taken_at)
        case _:
            return message


def _not_of_future(order: FleetOrder, taken_at: datetime) -> FleetOrder:
    """With no later time than that at which the brokers took it: as long as it was newest, no other would count.

    An earlier one stays: an order that is sent again is the one that it was.
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
        case EngineInstallation(phase=phase, version=version, message=told):
            _storable(version, told)
            if phase not in PHASES:
                raise Poison(f"a provisioner tells no phase '{phase[:64]}'")
    return observation


def _require_health(told: EngineHealth) -> None:
    """Raises Poison unless an agent may tell this of an instance."""
    _storable(told.reason, told.message, told.version)
    if told.queue < 0:
        raise Poison(f"no queue has {told.queue} Applications")
    if told.health not in TOLD:
        raise Poison(f"an agent tells no health '{told.health[:64]}'")


def _checked_order(order: FleetOrder) -> FleetOrder:
    values = asdict(order.order).values()
    lists = (each for value in values if isinstance(value, tuple | list) for each in value)
    _storable(order.actor, *(value for value in (*values, *lists) if isinstance(value, str)))
    return order


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
