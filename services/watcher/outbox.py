"""Commands on their way to Kafka. One outbox serves one reflection: if it loses a command, both are given up.

Called by :mod:`feed`. Promises that nothing is dropped silently: a command is delivered, or ``lost`` has an error.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import COMMANDS, Publisher, tenant_key
from services.common.kafka.publisher import PARTITION_BY_KEY, QueueFull
from services.common.messages import AvroCodec, Command
from services.common.telemetry import TRACEPARENT, new_traceparent

FULL_QUEUE_SECONDS = 0.05


class Outbox:
    """Sends commands; at most ``limit`` of them are unacknowledged."""

    def __init__(self, publisher: Publisher, codec: AvroCodec[Command], limit: int, topic: str = COMMANDS) -> None:
        """Belongs to the running event loop."""
        self._publisher, self._codec, self._limit, self._topic = publisher, codec, limit, topic
        self._loop = asyncio.get_running_loop()
        self._in_flight = 0
        self._settled = asyncio.Event()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Fails with Retry as soon as one command could not be delivered."""

    async def put(self, command: Command) -> None:
        """Queue a command about a tenant. Waits for room; raises Retry if one was lost."""
        key = tenant_key(command.workspace, command.namespace)
        await self._put(key, self._codec.encode(command), PARTITION_BY_KEY)

    async def put_everywhere(self, command: Command, partitions: int) -> None:
        """Queue a command for every partition: it concerns all tenants. Raises Retry if one was lost."""
        value = self._codec.encode(command)
        for partition in range(partitions):
            await self._put(None, value, partition)

    async def delivered(self) -> None:
        """Wait until Kafka has acknowledged all that was queued. Raises Retry if one was lost."""
        await self._at_most_in_flight(0)

    async def _put(self, key: bytes | None, value: bytes, partition: int) -> None:
        await self._at_most_in_flight(self._limit - 1)
        delays = Backoff(first=FULL_QUEUE_SECONDS, limit=1)
        while True:
            headers = {TRACEPARENT: new_traceparent()}
            try:
                outcome = self._publisher.send(self._topic, key, value, headers, partition)
            except QueueFull:
                await asyncio.sleep(delays.next())
            else:
                break
        self._in_flight += 1
        outcome.add_done_callback(self._from_delivery_thread)

    async def _at_most_in_flight(self, count: int) -> None:
        while self._in_flight > count and not self.lost.done():
            self._settled.clear()
            await self._settled.wait()
        if self.lost.done():
            self.lost.result()

    def _from_delivery_thread(self, outcome: Future[int]) -> None:
        self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: Future[int]) -> None:
        self._in_flight -= 1
        error = outcome.exception()
        if error is not None and not self.lost.done():
            self.lost.set_exception(error if isinstance(error, Retry) else Retry(str(error)))
            self.lost.exception()  # whoever waits learns of it; if nobody does, asyncio need not complain
        self._settled.set()
