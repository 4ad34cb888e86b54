"""The life of an event: enter the ledger, decode, keep, hand over. One call per event, in order per partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from services.agent import SERVICE
from services.agent.acknowledgement import Event, PartitionLedger, Ticket
from services.agent.desired_state import DesiredState
from services.agent.fleet import Fleet
from services.common.backoff import Backoff
from services.common.errors import Poison, Retry
from services.common.kafka import DeadLetters
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import EngineResource, unframe
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

Decode = Callable[[bytes], EngineResource]


class Intake:
    """Takes events of gitops.engine in."""

    def __init__(self, decode: Decode, desired: DesiredState, fleet: Fleet, dead_letters: DeadLetters) -> None:
        self._decode, self._desired, self._fleet, self._dead_letters = decode, desired, fleet, dead_letters
        self._ledgers: dict[int, PartitionLedger] = {}
        self._known_schemas: set[int] = set()
        self._assignment = asyncio.Event()
        self._taking = False

    @property
    def taking(self) -> bool:
        """An event is being dealt with, which may have to wait: for a schema, for the delivery of a dead letter."""
        return self._taking

    async def take(self, event: Event) -> None:
        """Take in one event; it is acknowledged when its effect is certain, which may be much later."""
        self._taking = True
        try:
            await self._take(event)
        finally:
            self._taking = False

    async def _take(self, event: Event) -> None:
        assignment = self._assignment
        await assignment.wait()
        if assignment is not self._assignment:
            return None  # revoked meanwhile: who owns the partition now is sent it again
        message = event.message
        ticket = self._ledgers.setdefault(message.partition, PartitionLedger()).enter(event)
        metrics.count_message(SERVICE, message.topic, metrics.Direction.RECEIVED)
        metrics.HOP.labels(SERVICE, message.topic).observe(max(0.0, time.time() - message.timestamp))
        if message.value is None:
            return ticket.done()  # a tombstone: compaction's business, not ours
        try:
            row = await self._decoded(message.value)
        except Poison as error:
            return await self._give_up(message, ticket, error)
        self._desired.keep(message.partition, row)
        return self._fleet.submit(row, ticket)

    def next_offsets(self) -> dict[int, int]:
        """By partition, the offset after the last event taken in since the assignment."""
        return {partition: ledger.next_offset for partition, ledger in self._ledgers.items()}

    def open(self) -> None:
        """The desired state was loaded: events may come."""
        self._assignment.set()

    def close(self) -> None:
        """All partitions were revoked: what is open is sent again, to us or to another agent."""
        self._assignment = asyncio.Event()
        for ledger in self._ledgers.values():
            ledger.close()
        self._ledgers.clear()

    async def _decoded(self, value: bytes) -> EngineResource:
        """Decode; while the registry does not answer nothing can be understood, so everything behind waits too."""
        schema_id, _ = unframe(value)
        if schema_id in self._known_schemas:
            return self._decode(value)
        delays = Backoff(limit=5)
        while True:
            try:
                row = await asyncio.to_thread(self._decode, value)
            except Retry as error:
                log.warning("schema not to be had", schema=schema_id, error=str(error))
                await asyncio.sleep(delays.next())
            else:
                self._known_schemas.add(schema_id)
                return row

    async def _give_up(self, message: Any, ticket: Ticket, error: Poison) -> None:
        """A message that cannot be kept as a dead letter is not passed over: Retry ends the process."""
        metrics.count_failure(SERVICE, error, "decode")
        source = SourceMessage(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            key=message.key,
            value=message.value,
            headers=_headers(message.headers),
        )
        await asyncio.wrap_future(self._dead_letters.send(source, error, datetime.now(UTC)))
        ticket.done()


def _headers(headers: Any) -> dict[str, bytes]:
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    return {name: bytes(value or b"") for name, value in pairs}
