"""Consumes ``gitops.workspace.<WORKSPACE>`` on a thread of its own: messages in, decoded rows out.

librdkafka's calls block, and must go on while statuses are written, or the broker would take this process for dead. So
the thread only consumes and decodes, and hands over to the event loop, which acknowledges the offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

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
from services.common.messages import WorkspaceResource
from services.watcher import SERVICE
from services.watcher.followed_kinds import BY_NAME
from services.watcher.status.status_writer import require_known_kind

log = structlog.get_logger(__name__)

KEY = "gitops.public.workspace_resources.Key"
MAX_BATCH = 500
POLL_SECONDS = 0.25  # only how soon a stop is noticed: a message ends the poll at once


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A consumed message and what it says."""

    message: ConsumedMessage
    content: WorkspaceResource | Poison | None
    """The row to write; None if it does not concern this watcher."""


class RowHandler(Protocol):
    """Writes the rows. All methods are called on the consumer's thread."""

    def handle_rows(self, rows: list[DecodedRow]) -> None:
        """Take over these rows."""

    def revoke_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Return when nothing of these partitions will be written any more."""

    def is_full(self) -> bool:
        """Whether consuming shall pause."""


def consumer_group(workspace: str) -> str:
    """The group is the workspace's own, as its topic is."""
    return f"gitops-watcher-{workspace}"


class RowConsumer:
    """Consumes the rows of one workspace; what was handed over is acknowledged at ``offsets``."""

    def __init__(
        self,
        brokers: Brokers,
        registry: SchemaRegistry,
        limit: DeadLetterLimit,
        workspace: str,
        topic: str,
        kinds: Container[str] = BY_NAME,
    ) -> None:
        """Joins the group when it runs. ``kinds``: those whose rows can be written."""
        self._registry, self._limit, self._workspace, self._kinds = registry, limit, workspace, kinds
        self._key_schema = registry.local_schema(KEY)
        self._handler: RowHandler | None = None
        self._stopping, self._aside, self._has_left = threading.Event(), threading.Event(), False
        group = consumer_group(workspace)
        self.session = GroupSession(SESSION_SECONDS)
        """Whether what is ours can be another watcher's by now."""
        membership = Membership(
            SERVICE, group, (topic,), "cooperative-sticky", on_revoke=self._revoke_partitions, session=self.session
        )
        self._consumer = Consumer(brokers, membership)
        self.offsets = self._consumer.offsets

    @property
    def was_assigned(self) -> bool:
        """Whether the group has ever given this process its share of the partitions."""
        return self._consumer.was_assigned

    def run(self, handler: RowHandler) -> None:
        """Consume until :meth:`stop`. Raises Unavailable when the consumer cannot go on."""
        self._handler = handler
        while not self._stopping.is_set():
            self._leave_or_join()
            self._consumer.set_paused(handler.is_full())
            messages = self._consumer.poll_batch(MAX_BATCH, POLL_SECONDS)
            if messages:
                handler.handle_rows([self._decode_message(message) for message in messages])

    async def leave_group(self) -> None:
        """Leave our share to other watchers, within a poll."""
        self._aside.set()

    async def join_group(self) -> None:
        """Take part again."""
        self._aside.clear()

    def stop(self) -> None:
        """Take no more messages. What was handed over may still be acknowledged, until :meth:`close`."""
        self._stopping.set()

    def close(self) -> None:
        """Commit what was acknowledged, and leave the group. Called when :meth:`run` has returned."""
        self._consumer.close()

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

    def _decode_message(self, message: ConsumedMessage) -> DecodedRow:
        delays = Backoff(limit=2)
        while True:
            try:
                return DecodedRow(message, self._row_or_poison(message))
            except Retry as error:
                log.warning("a row waits", error=str(error))
                if self._stopping.wait(delays.next_delay()):
                    raise Unavailable(str(error)) from error

    def _row_or_poison(self, message: ConsumedMessage) -> WorkspaceResource | Poison | None:
        """Raises Retry while its schema is not to be had, and while it must not be given up.

        A row counts as handled when it is written; one that is not to be written, when it is understood.
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
        """The namespace, as of rows that are written; the key itself if it does not tell.

        The registry is not asked: what it answers may be what is wrong, and an origin must stay the same.
        """
        try:
            return str(decode_known(self._key_schema, key)["namespace"])
        except Poison:
            return key

    def _row(self, value: bytes) -> WorkspaceResource | None:
        """The row to write; None for a deleted one and one of another workspace."""
        record = decode_record(self._registry, value)
        if not isinstance(record, dict):
            raise Poison(f"not a row but {type(record).__name__}")
        if record.get("__deleted") == "true" or record.get("workspace", self._workspace) != self._workspace:
            return None
        return require_known_kind(WorkspaceResource.from_record(record), self._kinds)
