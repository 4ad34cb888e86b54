"""The way up: ``read → keep the newest of each resource → write it → store the offset``, in that order.

The bootstrap runs it. :mod:`rows` delivers from its thread; everything else happens on the event loop. What it
promises: an offset is stored only when every message before it has had its effect, or its dead letter is delivered.

    1. Rows are read; nothing of them is kept but in memory.       Crash: they are read again.
    2. A newer row of the same resource replaces one that waits.   Crash: both are read again, in order.
    3. The status is written, the finalizer taken off.             Crash: done again, which changes nothing.
    4. The offset is stored, and committed within a second.        Crash before the commit: as in 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from services.common.errors import GitOpsError, Permanent, Poison, Retry, Unavailable, Wait
from services.common.kafka import DeadLetters
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import WorkspaceResource
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.backlog import Backlog, Item
from services.watcher.ledger import Ledger, Position
from services.watcher.rows import Reading

log = structlog.get_logger(__name__)

REVOKE_SECONDS = 5.0
"""How long giving up a partition waits for statuses being written: well within the session time-out."""


@dataclass(slots=True)
class Reporter:
    """Writes what was read. Created on the event loop that it belongs to."""

    write: Callable[[WorkspaceResource], Awaitable[bool]]
    store: Callable[[Position, int], None]
    dead_letters: DeadLetters
    limit: int
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _backlog: Backlog = field(default_factory=Backlog)
    _ledger: Ledger = field(default_factory=Ledger)
    _failed: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self._failed = self._loop.create_future()

    # On the consumer's thread.

    def deliver(self, readings: list[Reading]) -> None:
        """Take over these readings."""
        metrics.BATCH_SIZE.labels(SERVICE).observe(len(readings))
        self._loop.call_soon_threadsafe(self._receive, readings)

    def revoke(self, partitions: list[int]) -> None:
        """Return when nothing of these partitions will be written any more."""
        given_up = asyncio.run_coroutine_threadsafe(self._give_up(partitions), self._loop)
        try:
            given_up.result(REVOKE_SECONDS)
        except TimeoutError:
            log.warning("partitions given up while a status was still being written", partitions=partitions)

    def is_full(self) -> bool:
        """Whether consuming shall pause."""
        return len(self._backlog) >= self.limit

    # On the event loop.

    async def run(self, writers: int) -> None:
        """Write with this many writers, for ever. Raises Unavailable if a dead letter cannot be written."""
        working = [asyncio.create_task(self._work()) for _ in range(writers)]
        try:
            done, _ = await asyncio.wait([self._failed, *working], return_when=asyncio.FIRST_COMPLETED)
            for outcome in done:
                outcome.result()
        finally:
            for task in working:
                task.cancel()
            await asyncio.wait(working)

    async def drain(self) -> None:
        """Begin no more writes, finish those begun."""
        await self._backlog.drop()

    def _receive(self, readings: list[Reading]) -> None:
        for reading in readings:
            self._ledger.begin(reading.position)
            match reading:
                case Reading(position, SourceMessage() as source, error=Poison() as error):
                    metrics.count_failure(SERVICE, error, "decode")
                    self._bury(position, source, error)
                case Reading(position, SourceMessage() as source, WorkspaceResource() as row):
                    if superseded := self._backlog.add(Item(row, position, source)):
                        self._finish(superseded.position)
                case _:
                    self._finish(reading.position)

    async def _work(self) -> None:
        while True:
            item = await self._backlog.take()
            try:
                if await self.write(item.row):
                    _observe(item.row)
            except (Retry, Wait, Permanent) as error:
                self._failed_to_write(item, error)
            else:
                self._backlog.finish(item)
                self._finish(item.position)

    def _failed_to_write(self, item: Item, error: GitOpsError) -> None:
        """What becomes of a row that could not be written: later again, or its message is a dead letter."""
        metrics.count_failure(SERVICE, error, "status")
        about = {"kind": item.row.kind, "namespace": item.row.namespace, "name": item.row.name, "error": str(error)}
        if isinstance(error, Permanent):
            log.error("status refused; the row is given up", **about)
            self._backlog.finish(item)
            self._bury(item.position, item.source, error)
            return
        seconds = item.delays.next()
        log.warning("status not written yet", retry_in_seconds=round(seconds, 3), **about)
        if superseded := self._backlog.set_aside(item, seconds):
            self._finish(superseded.position)

    def _finish(self, position: Position) -> None:
        next_offset = self._ledger.finish(position)
        if next_offset is not None:
            self.store(position, next_offset)

    async def _give_up(self, partitions: list[int]) -> None:
        await self._backlog.drop(partitions)
        self._ledger.forget(partitions)

    def _bury(self, position: Position, message: SourceMessage, error: Poison | Permanent) -> None:
        try:
            delivery = self.dead_letters.send(message, error, datetime.now(UTC))
        except Retry as undelivered:
            self._fail(undelivered)
            return
        delivery.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._buried, position, done))

    def _buried(self, position: Position, delivery: Future[int]) -> None:
        error = delivery.exception()
        self._finish(position) if error is None else self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(Unavailable(f"a dead letter could not be written: {error}"))


def _observe(row: WorkspaceResource) -> None:
    seconds = (datetime.now(UTC) - row.seen_at).total_seconds()
    metrics.END_TO_END.labels("status", row.kind).observe(max(0.0, seconds))
