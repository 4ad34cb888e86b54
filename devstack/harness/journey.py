"""Follows deployments through the system by reading the log: what the demo shows and the benchmark measures.

An onlooker: it consumes the same topics as the services, in no consumer group, and changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from devstack.stack.identities import ENGINE_CLUSTER, WORKSPACE
from services.common.argocd_names import uid_of
from services.common.avro import AvroCodec, Registry, SchemaRegistry, decode_record, value_subject
from services.common.errors import Poison, Retry
from services.common.kafka import Brokers, ConsumedMessage, PartitionReader, TopicPartition, count_partitions, topics
from services.common.messages import (
    Applied,
    Command,
    EngineResource,
    Observation,
    Removed,
    ResourceChanged,
    RowKind,
    WorkspaceResource,
)

GROUP = "gitopsctl-journeys"
POLL_SECONDS = 0.05
ROWS = topics.engine_topic(ENGINE_CLUSTER)
REPORTS = topics.observations_topic(ENGINE_CLUSTER)
TOPICS = (topics.COMMANDS, ROWS, REPORTS, topics.workspace_topic(WORKSPACE))


class Stage(StrEnum):
    """What has become of a change, in the order in which it happens."""

    CREATED = "created"
    """The API server has stored the CR; measured by whoever wrote it."""
    WATCHED = "watched"
    """The watcher has seen it."""
    PLANNED = "planned"
    """The planner's transaction holds the compiled rows."""
    STREAMED = "streamed"
    """Debezium has put the row on the engine topic."""
    APPLIED = "applied"
    """The agent has made the Application so."""
    DRIFTED = "drift repaired"
    """Somebody else had changed it, and the agent has undone that."""
    REMOVED = "removed"
    """The Application is gone."""
    STATUS = "status"
    """The row with the CR's new status is on the workspace topic."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One deployment, identified by its CR's UID, has passed one stage."""

    uid: str
    stage: Stage
    at: datetime


@dataclass(slots=True)
class Journeys:
    """Reads the log on a thread of its own and reports every passage to ``on_passage``, on that thread."""

    brokers: Brokers
    registry: Registry
    on_passage: Callable[[Passage], None]
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin at the present end of every partition; returns when nothing later can be missed."""
        reader = PartitionReader(self.brokers, GROUP)
        counts = count_partitions(self.brokers, TOPICS)
        every = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        reader.assign_partitions(reader.end_offsets(every))
        decode = _Decoder(SchemaRegistry(self.registry))
        self._thread = threading.Thread(target=self._run, args=(reader, decode), name="journeys", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, reader: PartitionReader, decode: _Decoder) -> None:
        with reader:
            while not self._closing.is_set():
                with suppress(Retry):  # a broker is away, and comes back
                    for message in reader.read_batch(500, POLL_SECONDS):
                        for passage in decode(message):
                            self.on_passage(passage)


class _Decoder:
    """Turns one message of any topic into the passages it tells of."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._commands = AvroCodec(registry, Command, value_subject(topics.COMMANDS))
        self._observations = AvroCodec(registry, Observation, value_subject(topics.OBSERVATIONS))

    def __call__(self, message: ConsumedMessage) -> Iterator[Passage]:
        if message.value is None:
            return
        written = datetime.fromtimestamp(message.timestamp, UTC)
        try:
            match message.topic:
                case topics.COMMANDS:
                    yield from _of_command(self._commands.decode_message(message.value))
                case topic if topic == REPORTS:
                    yield from _of_observation(self._observations.decode_message(message.value))
                case topic if topic == ROWS:
                    record = decode_record(self._registry, message.value)
                    planned = datetime.fromisoformat(record["updated_at"]) if record.get("updated_at") else None
                    yield from _of_engine(EngineResource.from_record(record), planned, written)
                case _:
                    row = WorkspaceResource.from_record(decode_record(self._registry, message.value))
                    yield Passage(row.uid, Stage.STATUS, written)
        except Poison:
            return  # planted by a test or a drill; the services send it to the dead letters


def _of_command(command: Command) -> Iterator[Passage]:
    if isinstance(command.event, ResourceChanged):
        yield Passage(command.event.uid, Stage.WATCHED, command.seen_at)


def _of_engine(row: EngineResource, planned: datetime | None, streamed: datetime) -> Iterator[Passage]:
    if row.kind == RowKind.APPLICATION and not row.deleted:
        uid = uid_of(row.name)
        if planned is not None:
            yield Passage(uid, Stage.PLANNED, planned)
        yield Passage(uid, Stage.STREAMED, streamed)


def _of_observation(observation: Observation) -> Iterator[Passage]:
    if observation.kind != RowKind.APPLICATION:
        return
    uid = uid_of(observation.name)
    match observation.event:
        case Applied(drift_repaired=True):
            yield Passage(uid, Stage.DRIFTED, observation.observed_at)
        case Applied():
            yield Passage(uid, Stage.APPLIED, observation.observed_at)
        case Removed():
            yield Passage(uid, Stage.REMOVED, observation.observed_at)
