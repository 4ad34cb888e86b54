"""Brings consumed rows about: ``consume → keep the newest of each object → write it → acknowledge the offset``.

:mod:`row_consumer` hands over from its thread; everything else happens on the event loop. An offset is committed only
when every message before it has had its effect, or its dead letter is delivered. A row is also let go when it has
waited for a while, if the planner writes it anew by itself once it can be written.

    1. Rows are consumed; nothing of them is kept but in memory.   Crash: they are consumed again.
    2. A newer row of the same object replaces one that waits.     Crash: both are consumed again, in order.
    3. What it says is written: a status, or a child object.       Crash: done again, which changes nothing.
    4. The offset is acknowledged, and committed within a second.  Crash before the commit: as in 3.

A row is written only in the assignment of the partition in which it was consumed, which is asked again right before
the write, and a write is over before the partition is given up: what the next owner writes is never overwritten. A
process that stood still, and does not know yet that the partition went, is kept from it by its group session. One
window remains: a write that was cut off when its time was over may still be in the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic

import structlog

from services.common.errors import AskedAgain, GitOpsError, Permanent, Poison, Retry, Unavailable, Wait
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    DeadLetterQueue,
    GroupSession,
    OffsetTracker,
    TooManyDeadLetters,
    TopicPartition,
)
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.rows.pending_rows import PendingRow, PendingRows
from services.watcher.rows.row_consumer import DecodedRow
from services.watcher.rows.row_types import RowT, RowType

log = structlog.get_logger(__name__)

WRITE_SECONDS = 10.0
REVOKE_SECONDS = WRITE_SECONDS + 2
"""How long the loss of a partition waits for writes under way. The broker waits for minutes."""
CONFIRMATION_SECONDS = 0.05
"""How long a row waits until it is confirmed that we still own its partition."""
ASKED_AGAIN_AFTER = timedelta(seconds=10)
"""Age of a row from which the planner asks for its object again without delay: ``REAPPLY_AFTER`` in the planner."""


@dataclass(slots=True)
class RowDelivery(Generic[RowT]):
    """Writes consumed rows. Belongs to the event loop on which it was created."""

    type: RowType[RowT]
    write: Callable[[RowT], Awaitable[bool]]
    """Writes a row; returns whether anything had to be written. Raises Retry, Wait, Permanent."""
    offsets: OffsetTracker
    session: GroupSession
    dead_letters: DeadLetterQueue
    dead_letter_limit: DeadLetterLimit
    limit: int
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _pending: PendingRows[RowT] = field(init=False)
    _failed: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self._failed = self._loop.create_future()
        self._pending = PendingRows(
            self._work, lambda item: self._acknowledge(item.message), self._fail, self.type.at_once, self.type.wave_of
        )

    # On the consumer's thread.

    def handle_rows(self, rows: list[DecodedRow[RowT]]) -> None:
        """Accept these rows."""
        self._loop.call_soon_threadsafe(self._receive, rows)

    def revoke_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Return when nothing of these partitions will be written any more."""
        dropped = asyncio.run_coroutine_threadsafe(self._pending.drop_partitions(partitions), self._loop)
        try:
            dropped.result(REVOKE_SECONDS)
        except TimeoutError:
            log.warning(
                "partitions given up while a row was still being written", row=self.type.name, partitions=partitions
            )

    def is_full(self) -> bool:
        """Whether consuming should pause."""
        return len(self._pending) >= self.limit

    # On the event loop.

    async def run(self, writers: int) -> None:
        """Write rows, ``writers`` at a time, for ever. Raises Unavailable if a dead letter cannot be written."""
        self._pending.start(writers)
        try:
            await self._failed
        finally:
            await self._pending.stop()

    async def drain(self) -> None:
        """Finish the writes under way, and begin no others."""
        await self._pending.drop_partitions()

    def _receive(self, rows: list[DecodedRow[RowT]]) -> None:
        for row in rows:
            if not self.offsets.is_current(row.message.tracked):
                continue  # revoked since it was consumed: the next owner is sent it again
            match row.content:
                case Poison() as error:
                    metrics.count_failure(SERVICE, error, "decode")
                    self._give_up(row.message, error)
                case None:
                    self._acknowledge(row.message)
                case content:
                    self._pending.add_item(PendingRow(content, row.message))

    async def _work(self, item: PendingRow[RowT]) -> float | None:
        """Write one row; returns in how many seconds to try again."""
        if not self.session.is_confirmed and self.offsets.is_current(item.message.tracked):
            return CONFIRMATION_SECONDS
        try:
            if self.offsets.is_current(item.message.tracked):
                await self._write(item.row)
                self.dead_letter_limit.count_handled([item.row.namespace])
        except (Retry, Wait, Permanent) as error:
            return self._failed_to_write(item, error)
        return None

    async def _write(self, row: RowT) -> None:
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                if await self.write(row):
                    self._observe(row)
        except TimeoutError as error:
            raise Retry(f"not written within {WRITE_SECONDS:g} s") from error

    def _failed_to_write(self, item: PendingRow[RowT], error: GitOpsError) -> float | None:
        """Decide about a row that could not be written: try it again later, or make its message a dead letter."""
        metrics.count_failure(SERVICE, error, self.type.name)
        about = {"kind": item.row.kind, "namespace": item.row.namespace, "name": item.row.name, "error": str(error)}
        if isinstance(error, Permanent) and self._may_give_up(item.row, error):
            log.error(f"{self.type.name} refused; the row is given up", **about)
            self._pending.withdraw_item(item)
            self._give_up(item.message, error)
            return None
        if isinstance(error, AskedAgain) and self._leaves_to_planner(item.row):
            log.warning(f"{self.type.name} not written; the planner asks again", **about)
            return None
        seconds = item.delays.next_delay()
        log.warning(f"{self.type.name} not written yet", retry_in_seconds=round(seconds, 3), **about)
        return seconds

    def _leaves_to_planner(self, row: RowT) -> bool:
        """Whether a row waits here no longer, because the planner asks for it again by itself.

        One tenant can have thousands of rows that can never be written. They do not pause consuming: half of the room
        is for other rows.
        """
        return 2 * len(self._pending) >= self.limit or datetime.now(UTC) >= row.seen_at + ASKED_AGAIN_AFTER

    def _may_give_up(self, row: RowT, error: Permanent) -> bool:
        """Whether ``row`` may be given up.

        Not if most tenants' rows are refused, as by an API server with older CRDs.
        """
        try:
            self.dead_letter_limit.require_room([row.namespace], error)
        except TooManyDeadLetters:
            return False
        return True

    def _observe(self, row: RowT) -> None:
        seconds = (datetime.now(UTC) - row.seen_at).total_seconds()
        metrics.END_TO_END.labels(self.type.name, row.kind).observe(max(0.0, seconds))

    def _acknowledge(self, message: ConsumedMessage) -> None:
        self.offsets.acknowledge_offset(message.tracked)

    def _give_up(self, message: ConsumedMessage, error: Poison | Permanent) -> None:
        try:
            delivery = self.dead_letters.send_letter(message, error, datetime.now(UTC))
        except Retry as undelivered:
            self._fail(_not_written(undelivered))
            return
        delivery.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._delivered, message, done))

    def _delivered(self, message: ConsumedMessage, delivery: Future[int]) -> None:
        error = delivery.exception()
        self._acknowledge(message) if error is None else self._fail(_not_written(error))

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


def _not_written(error: BaseException) -> Unavailable:
    return Unavailable(f"a dead letter could not be written: {error}")
