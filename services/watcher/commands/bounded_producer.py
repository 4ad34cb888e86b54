"""Sends commands to Kafka, a bounded number at a time. Each session of a feed has one: both end if a command is lost.

Called by :mod:`follow_session`. A command is either delivered, or ``lost`` has an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from services.common.avro import AvroCodec
from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import COMMANDS, Publisher, tenant_key
from services.common.kafka.publisher import PARTITION_BY_KEY, QueueFull
from services.common.messages import Command
from services.common.telemetry import TRACEPARENT, new_traceparent

FULL_QUEUE_SECONDS = 0.05
BYTES_IN_FLIGHT = 16 * 1024 * 1024


class BoundedProducer:
    """Sends commands.

    At most ``limit`` of them are unacknowledged, and at most :data:`BYTES_IN_FLIGHT` or one command.
    """

    def __init__(
        self,
        publisher: Publisher,
        codec: AvroCodec[Command],
        limit: int,
        topic: str = COMMANDS,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """Belongs to the running event loop.

        ``may_send`` is asked right before each command: another process may lead.
        """
        self._publisher, self._codec, self._limit, self._topic = publisher, codec, limit, topic
        self._may_send = may_send
        self._loop = asyncio.get_running_loop()
        self._in_flight = self._bytes = 0
        self._completed = asyncio.Event()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Fails with Retry as soon as one command could not be delivered."""

    async def send_command(self, command: Command) -> None:
        """Queue a command about a tenant. Waits for room; raises Retry if one was lost."""
        key = tenant_key(command.workspace, command.namespace)
        await self._put(key, self._codec.encode_message(command), PARTITION_BY_KEY)

    async def send_to_all_partitions(self, command: Command, partitions: int) -> None:
        """Queue a command for every partition: it concerns all tenants. Raises Retry if one was lost."""
        value = self._codec.encode_message(command)
        for partition in range(partitions):
            await self._put(None, value, partition)

    async def wait_for_delivery(self) -> None:
        """Wait until Kafka has acknowledged all that was queued. Raises Retry if one was lost."""
        await self._until(lambda: self._in_flight == 0)

    async def _put(self, key: bytes | None, value: bytes, partition: int) -> None:
        await self._until(lambda: self._has_room(len(value)))
        delays = Backoff(first=FULL_QUEUE_SECONDS, limit=1)
        while True:
            if not self._may_send():
                raise Retry("this process does not lead any more")
            headers = {TRACEPARENT: new_traceparent()}
            try:
                outcome = self._publisher.send_message(self._topic, key, value, headers, partition)
            except QueueFull:
                await asyncio.sleep(delays.next_delay())
            else:
                break
        self._in_flight += 1
        self._bytes += len(value)
        outcome.add_done_callback(partial(self._from_delivery_thread, len(value)))

    def _has_room(self, size: int) -> bool:
        within = self._in_flight < self._limit and self._bytes + size <= BYTES_IN_FLIGHT
        return within or self._in_flight == 0

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self.lost.done():
            self._completed.clear()
            await self._completed.wait()
        if self.lost.done():
            self.lost.result()

    def _from_delivery_thread(self, size: int, outcome: Future[int]) -> None:
        self._loop.call_soon_threadsafe(self._complete_send, size, outcome)

    def _complete_send(self, size: int, outcome: Future[int]) -> None:
        self._in_flight -= 1
        self._bytes -= size
        error = outcome.exception()
        if error is not None and not self.lost.done():
            self.lost.set_exception(error if isinstance(error, Retry) else Retry(str(error)))
            self.lost.exception()  # whoever waits learns of it; if nobody does, asyncio need not complain
        self._completed.set()
