"""The life of a compiled row's message: track its offset, decode it, find its instance, store the row, hand it over.

Called once for each message, in order within a partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from services.agent import SERVICE
from services.agent.stream.desired_state import Decode, DesiredState
from services.agent.stream.owned_instances import OwnedInstances
from services.common.avro import unframe
from services.common.backoff import Backoff
from services.common.errors import Poison, Retry
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    DeadLetterQueue,
    OffsetTracker,
    TopicPartition,
)
from services.common.kafka.consumed_message import measure_messages
from services.common.messages import EngineResource
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

LookFor = Callable[[str], Awaitable[None]]
"""Returns once the fleet knows the instance of that id, or is known not to have it."""


class MessageHandler:
    """Handles messages between an assignment of partitions and their revocation."""

    def __init__(
        self,
        decode: Decode,
        desired: DesiredState,
        instances: OwnedInstances,
        dead_letters: DeadLetterQueue,
        limit: DeadLetterLimit,
        offsets: OffsetTracker,
        *,
        look_for: LookFor,
    ) -> None:
        self._decode, self._desired, self._instances, self._dead_letters = decode, desired, instances, dead_letters
        self._look_for = look_for
        self.limit, self.offsets = limit, offsets
        self._known_schemas: set[int] = set()
        self._assignment = asyncio.Event()
        self.in_hand: TopicPartition | None = None
        """The partition of the message that is being handled."""
        self.is_excused = False
        """Whether it waits for something outside this process: a schema, or room among the dead letters."""

    async def handle_message(self, message: Any) -> None:
        """Handle one of faust's messages. It is acknowledged when its effect is certain, which may be much later."""
        self.in_hand = TopicPartition(message.topic, message.partition)
        try:
            await self._handle(message, self.in_hand)
        finally:
            self.in_hand, self.is_excused = None, False

    def assign_partitions(self, starts: Mapping[TopicPartition, int]) -> None:
        """The desired state of these partitions was loaded: accept their messages, from these offsets on."""
        self.offsets.assign_partitions(starts)
        self._assignment.set()

    def revoke_partitions(self) -> None:
        """All partitions are revoked: unacknowledged messages come again, here or at another agent."""
        waited_for, self._assignment = self._assignment, asyncio.Event()
        waited_for.set()
        self.offsets.revoke_partitions(self.offsets.partitions)

    async def _handle(self, message: Any, source: TopicPartition) -> None:
        assignment = self._assignment
        await assignment.wait()
        if assignment is not self._assignment:
            return None  # revoked meanwhile: the partition's next owner is sent it again
        tracked = self.offsets.track_offset(source, message.offset)
        if tracked is None:
            return None  # consumed before
        consumed = ConsumedMessage(tracked, message.key, message.value, message.headers or (), message.timestamp)
        measure_messages(SERVICE, [consumed])
        return await self._store_and_submit(consumed)

    async def _store_and_submit(self, message: ConsumedMessage) -> None:
        acknowledge = partial(self.offsets.acknowledge_offset, message.tracked)
        if self._desired.is_superseded(message):
            return acknowledge()
        try:
            row = await self._understood(message)
        except Poison as error:
            metrics.count_failure(SERVICE, error, "decode")
            # A message that cannot be kept as a dead letter is not passed over: Retry ends the process.
            await asyncio.wrap_future(self._dead_letters.send_letter(message, error, datetime.now(UTC)))
            return acknowledge()
        if row is not None and not row.deleted:
            await self._look_for(row.engine_instance_id)
        if row is None or not self.offsets.is_current(message.tracked):
            return None  # revoked while it waited
        self._desired.store_row(message.tracked.source, row)
        return self._instances.submit_row(row, acknowledge)

    async def _understood(self, message: ConsumedMessage) -> EngineResource | None:
        """The message's row; None if its partition was revoked. Raises Poison if the message is given up.

        While the registry does not answer, or the dead letters have no room, all messages behind it wait, too.
        """
        delays = Backoff(limit=5)
        while self.offsets.is_current(message.tracked):
            try:
                row = await self._row_or_poison(message)
            except Retry as error:
                log.warning("a message waits", error=str(error))
                self.is_excused = True
                await asyncio.sleep(delays.next_delay())
            else:
                self.limit.count_handled([message.key])
                return row
        return None

    async def _row_or_poison(self, message: ConsumedMessage) -> EngineResource:
        """The message's row, or Poison.

        Raises Retry while the schema is unavailable, or the message must not be given up.
        """
        try:
            return await self._decoded(message.key, message.value)
        except Poison as error:
            self.limit.require_room([message.key], error)
            raise

    async def _decoded(self, key: bytes | None, value: bytes | None) -> EngineResource:
        schema_id, _ = unframe(key if value is None else value)
        if schema_id in self._known_schemas:
            return self._decode(key, value)
        row = await asyncio.to_thread(self._decode, key, value)
        self._known_schemas.add(schema_id)
        return row
