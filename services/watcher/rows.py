"""Consumes ``gitops.workspace`` on a thread: messages in, readings out, offsets stored when told to.

Run by the bootstrap. librdkafka's calls block, and must go on while statuses are written, or the broker would take
this process for dead; so the thread does nothing but consume and decode, and hands over to the event loop.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from services.common.backoff import Backoff
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import Brokers, client_properties
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import SchemaRegistry, WorkspaceResource
from services.common.messages.codec import decode_record
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.ledger import Position
from services.watcher.status_writer import known

log = structlog.get_logger(__name__)

MAX_BATCH = 500
POLL_SECONDS = 0.25  # only how soon a stop is noticed: a message ends the poll at once
LAG_SECONDS = 5.0
SESSION_MS = 6_000  # after a kill -9, the partitions are free again this soon


@dataclass(frozen=True, slots=True)
class Reading:
    """A consumed message and what it says: a row to write, nothing that concerns us, or nothing intelligible."""

    position: Position
    source: SourceMessage | None = None
    """The message, unless it is of no concern."""
    row: WorkspaceResource | None = None
    error: Poison | None = None


class Receiver(Protocol):
    """Who takes the readings. All methods are called on the consumer's thread."""

    def deliver(self, readings: list[Reading]) -> None:
        """Take over these readings."""

    def revoke(self, partitions: list[int]) -> None:
        """Return when nothing of these partitions will be written any more."""

    def is_full(self) -> bool:
        """Whether consuming shall pause."""


def consumer_settings(brokers: Brokers, workspace: str) -> dict[str, Any]:
    """How librdkafka consumes for a watcher of ``workspace``.

    The group is the workspace's own: a watcher passes over the rows of other workspaces, so sharing a group with
    their watchers would lose rows. Offsets are stored by hand, after the effects; librdkafka commits what is stored
    every second, on a rebalance and on close.
    """
    return client_properties(brokers) | {
        "client.id": SERVICE,
        "group.id": f"gitops-watcher-{workspace}",
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 1000,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": SESSION_MS // 3,
        "log.connection.close": False,
        "logger": logging.getLogger("librdkafka"),
    }


class Rows:
    """The consumer of one topic of compiled rows."""

    def __init__(self, consumer: Consumer, registry: SchemaRegistry, workspace: str, topic: str) -> None:
        self._consumer, self._registry = consumer, registry
        self._workspace, self._topic = workspace, topic
        self._stopping = threading.Event()
        self._finished: dict[int, int] = {}
        self._finished_lock = threading.Lock()
        self._paused = False
        self._lag_measured = 0.0
        self.assigned = False
        """Whether the group has ever given this process its share of the partitions."""

    def run(self, receiver: Receiver) -> None:
        """Consume until :meth:`stop`. Raises Unavailable when the consumer cannot go on."""

        def give_up(_: Consumer, partitions: list[TopicPartition]) -> None:
            self._give_up(receiver, [item.partition for item in partitions])

        self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=give_up, on_lost=give_up)
        while not self._stopping.is_set():
            self._keep_pace(receiver)
            self._store_finished()
            messages = self._take()
            if messages:
                receiver.deliver([self._read(message) for message in messages])
            self._measure_lag()

    def stop(self) -> None:
        """Take no more messages. What was handed over may still be finished and stored, until :meth:`close`."""
        self._stopping.set()

    def store(self, position: Position, next_offset: int) -> None:
        """Everything before ``next_offset`` has had its effects. May be called from any thread.

        Noted here, told to librdkafka by the consumer's own thread: its bindings hold a lock while they poll, and a
        call from a second thread would wait for that lock with the interpreter's in its hands.
        """
        with self._finished_lock:
            self._finished[position.partition] = next_offset

    def _store_finished(self) -> None:
        with self._finished_lock:
            finished, self._finished = self._finished, {}
        for partition, next_offset in finished.items():
            try:
                self._consumer.store_offsets(offsets=[TopicPartition(self._topic, partition, next_offset)])
            except KafkaException as error:
                # Not ours any more: its new owner reads these again, and writing them twice changes nothing.
                if error.args[0].code() != KafkaError._STATE:
                    raise

    def close(self) -> None:
        """Commit what was stored, and leave the group. Called when :meth:`run` has returned."""
        self._store_finished()
        self._consumer.close()

    def _take(self) -> list[Message]:
        """All messages that are there, or the first to come; none after a while."""
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        # consume() alone would wait its whole time-out for a full batch.
        messages = [first, *self._consumer.consume(MAX_BATCH - 1, timeout=0)]
        return [message for message in messages if _is_usable(message)]

    def _read(self, message: Message) -> Reading:
        position = Position(message.partition() or 0, message.offset() or 0)
        metrics.count_message(SERVICE, self._topic, metrics.Direction.RECEIVED)
        metrics.HOP.labels(SERVICE, self._topic).observe(max(0.0, time.time() - message.timestamp()[1] / 1000))
        delays = Backoff(limit=2)
        while True:
            try:
                row = self._row(message.value())
                return Reading(position, _source(message), row) if row is not None else Reading(position)
            except Poison as error:
                return Reading(position, _source(message), error=error)
            except Retry as error:
                log.warning("a row waits for its schema", error=str(error))
                if self._stopping.wait(delays.next()):
                    raise Unavailable(str(error)) from error

    def _row(self, value: bytes | None) -> WorkspaceResource | None:
        """The row to write; None for a tombstone, a deleted row and one of another workspace."""
        if value is None:
            return None
        record = decode_record(self._registry, value)
        if not isinstance(record, dict):
            raise Poison(f"not a row but {type(record).__name__}")
        if record.get("__deleted") == "true" or record.get("workspace", self._workspace) != self._workspace:
            return None
        return known(WorkspaceResource.from_record(record))

    def _keep_pace(self, receiver: Receiver) -> None:
        """Pause while the receiver is full: polling goes on, so the broker knows that we live."""
        full = receiver.is_full()
        if full:  # each time: partitions may have come since
            self._consumer.pause(self._consumer.assignment())
        elif self._paused:
            self._consumer.resume(self._consumer.assignment())
        self._paused = full

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        log.info("partitions assigned", partitions=sorted(item.partition for item in partitions))
        self.assigned, self._lag_measured = True, 0.0

    def _give_up(self, receiver: Receiver, partitions: list[int]) -> None:
        log.info("partitions revoked", partitions=sorted(partitions))
        receiver.revoke(partitions)
        self._store_finished()  # librdkafka commits it before it lets them go
        for partition in partitions:
            metrics.LAG.labels(SERVICE, self._topic, partition).set(0)  # its new owner's to report

    def _measure_lag(self) -> None:
        if time.monotonic() - self._lag_measured < LAG_SECONDS:
            return
        self._lag_measured = time.monotonic()
        for partition in self._consumer.position(self._consumer.assignment()):
            offsets = self._consumer.get_watermark_offsets(partition, cached=True)
            # Without a position nothing was there to consume since the assignment.
            lag = max(0, offsets[1] - partition.offset) if offsets and partition.offset >= 0 else 0
            metrics.LAG.labels(SERVICE, self._topic, partition.partition).set(lag)


def _is_usable(message: Message) -> bool:
    """Whether it is a message, not the report of a failure. Raises Unavailable on one that nothing here can heal."""
    error = message.error()
    if error is None:
        return True
    if error.fatal():
        raise Unavailable(f"the consumer cannot go on: {error.str()}")
    metrics.count_failure(SERVICE, metrics.Failure.RETRY, "consume")
    log.warning("consuming failed, librdkafka goes on", error=error.str())
    return False


def _source(message: Message) -> SourceMessage:
    headers: list[tuple[str, bytes | None]] = list(message.headers() or ())  # type: ignore[arg-type]
    return SourceMessage(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=_optional_bytes(message.key()),
        value=_optional_bytes(message.value()),
        headers={name: value or b"" for name, value in headers},
    )


def _optional_bytes(value: bytes | str | None) -> bytes | None:
    return None if value is None else _bytes(value)


def _bytes(value: bytes | str | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
