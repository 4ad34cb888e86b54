"""Consumes one topic of a workspace on its own thread, and decodes the messages into rows.

librdkafka's calls block, but must go on while rows are written, or the broker would consider this process dead. So the
thread only consumes, decodes and hands rows to the event loop, which acknowledges the offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

import structlog

from services.common.avro import SchemaRegistry, decode_known, decode_record
from services.common.backoff import Backoff
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import (
    SESSION_SECONDS,
    Brokers,
    ConsumedMessage,
    Consumer,
    DeadLetterLimit,
    GroupSession,
    Membership,
    TopicPartition,
)
from services.watcher import SERVICE
from services.watcher.rows.row_types import RowT, RowType

log = structlog.get_logger(__name__)

MAX_BATCH = 500
POLL_SECONDS = 0.25  # only how soon a stop is noticed: a message ends the poll at once


@dataclass(frozen=True, slots=True)
class DecodedRow(Generic[RowT]):
    """A consumed message and what it says."""

    message: ConsumedMessage
    content: RowT | Poison | None
    """The row to write; None if it does not concern this watcher."""


class RowHandler(Protocol[RowT]):
    """Writes the rows. All methods are called on the consumer's thread."""

    def handle_rows(self, rows: list[DecodedRow[RowT]]) -> None:
        """Accept these rows."""

    def revoke_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Return when nothing of these partitions will be written any more."""

    def is_full(self) -> bool:
        """Whether consuming should pause."""


class RowConsumer(Generic[RowT]):
    """Consumes one type of rows of one workspace. The rows handed over are acknowledged at ``offsets``."""

    def __init__(
        self,
        type_: RowType[RowT],
        brokers: Brokers,
        registry: SchemaRegistry,
        limit: DeadLetterLimit,
        workspace: str,
        topic: str,
    ) -> None:
        """The consumer joins its group in :meth:`run`."""
        self._type, self._registry, self._limit = type_, registry, limit
        self._workspace, self._topic = workspace, topic
        self._key_schema = registry.local_schema(type_.key_subject)
        self._handler: RowHandler[RowT] | None = None
        self._stopping, self._aside, self._has_left = threading.Event(), threading.Event(), False
        self._was_unavailable = False
        self.session = GroupSession(SESSION_SECONDS)
        """Tells whether another watcher may own our partitions by now."""
        membership = Membership(
            SERVICE,
            type_.consumer_group(workspace),
            (topic,),
            "cooperative-sticky",
            on_revoke=self._revoke_partitions,
            session=self.session,
        )
        self._consumer = Consumer(brokers, membership)
        self.offsets = self._consumer.offsets

    def unready_because(self) -> str:
        """Why nothing is consumed yet; empty if it is, or if the topic does not exist.

        Older installations have no topic for child objects. It is consumed as soon as it is created.
        """
        if self._consumer.was_assigned or self._consumer.unavailable_topics:
            return self._limit.reason
        return f"no partitions of {self._topic} assigned yet"

    def run(self, handler: RowHandler[RowT]) -> None:
        """Consume until :meth:`stop`. Raises Unavailable when the consumer cannot go on."""
        self._handler = handler
        while not self._stopping.is_set():
            self._leave_or_join()
            self._consumer.set_paused(handler.is_full())
            messages = self._consumer.poll_batch(MAX_BATCH, POLL_SECONDS)
            self._report_availability()
            if messages:
                handler.handle_rows([self._decode_message(message) for message in messages])

    async def leave_group(self) -> None:
        """Leave the group, so that other watchers get our partitions; takes one poll."""
        self._aside.set()

    async def join_group(self) -> None:
        """Join the group again."""
        self._aside.clear()

    def stop(self) -> None:
        """Consume no more messages. Rows handed over may be acknowledged until :meth:`close`."""
        self._stopping.set()

    def close(self) -> None:
        """Commit what was acknowledged, and leave the group. Called when :meth:`run` has returned."""
        self._consumer.close()

    def _report_availability(self) -> None:
        """Log once what to do if the topic is missing. The client keeps asking the brokers for it."""
        is_unavailable = bool(self._consumer.unavailable_topics)
        if is_unavailable and not self._was_unavailable:
            log.warning("a topic is missing, or not ours to read; run 'gitopsctl workspaces add'", topic=self._topic)
        self._was_unavailable = is_unavailable

    def _leave_or_join(self) -> None:
        if self._aside.is_set() == self._has_left:
            return
        self._has_left = not self._has_left
        if self._has_left:
            self._consumer.leave_group()
        else:
            self._consumer.join_group()

    def _revoke_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        if self._handler is not None:
            self._handler.revoke_partitions(partitions)

    def _decode_message(self, message: ConsumedMessage) -> DecodedRow[RowT]:
        delays = Backoff(limit=2)
        while True:
            try:
                return DecodedRow(message, self._row_or_poison(message))
            except Retry as error:
                log.warning("a row waits", error=str(error))
                if self._stopping.wait(delays.next_delay()):
                    raise Unavailable(str(error)) from error

    def _row_or_poison(self, message: ConsumedMessage) -> RowT | Poison | None:
        """The message's row. Raises Retry while the schema is unavailable, or while dead letters have no room.

        A row counts as handled when it is written; a message without a row to write, when it is decoded.
        """
        if message.value is None:
            return None  # a tombstone
        try:
            row = self._row(message.value)
        except Poison as error:
            self._limit.require_room([self._origin(message.key)], error)
            return error
        if row is None:
            self._limit.count_handled([self._origin(message.key)])
        return row

    def _origin(self, key: bytes | None) -> Hashable:
        """The namespace of the row; the key itself if it cannot be decoded.

        The registry is not asked: its answer may be what is wrong, and the origin of a message must not change.
        """
        try:
            return str(decode_known(self._key_schema, key)["namespace"])
        except Poison:
            return key

    def _row(self, value: bytes) -> RowT | None:
        """The row to write; None for a deleted row, or a row of another workspace."""
        record = decode_record(self._registry, value)
        if not isinstance(record, dict):
            raise Poison(f"not a row but {type(record).__name__}")
        if record.get("__deleted") == "true" or record.get("workspace", self._workspace) != self._workspace:
            return None
        return self._type.require_known(self._type.from_record(record))
