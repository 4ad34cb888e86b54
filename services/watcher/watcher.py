"""The watcher as a whole: what runs concurrently, when it is ready, and the order in which it shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from services.common.kafka import Publisher
from services.common.reachability import Reachability
from services.common.telemetry import Heartbeat
from services.watcher.leadership import Leadership
from services.watcher.status.delivery import StatusDelivery
from services.watcher.status.row_consumer import RowConsumer

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 3.0
FLUSH_SECONDS = 3.0


@dataclass(slots=True)
class Watcher:
    """The parts of one watcher, running or about to."""

    leadership: Leadership
    rows: RowConsumer
    reporter: StatusDelivery
    publishers: Sequence[Publisher]
    writers: int
    cluster: Reachability | None = None
    """If there are other watchers: they write all statuses while this one cannot reach the API server."""
    _heartbeat: Heartbeat = field(default_factory=Heartbeat)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set or a part cannot go on; then end in order. Raises what that part raised."""
        consuming = asyncio.create_task(asyncio.to_thread(self.rows.run, self.reporter))
        writing = asyncio.create_task(self.reporter.run(self.writers))
        feeding = asyncio.create_task(self.leadership.run())
        waiting = [asyncio.create_task(_until(stop)), asyncio.create_task(self._heartbeat.keep_beating())]
        if self.cluster is not None:
            stepping_aside = self.cluster.leave_while_silent(self.rows.leave_group, self.rows.join_group)
            waiting.append(asyncio.create_task(stepping_aside))
        try:
            done, _ = await asyncio.wait([consuming, writing, feeding, *waiting], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end(consuming, [feeding, *waiting], writing)

    async def _end(
        self, consuming: asyncio.Task[None], others: list[asyncio.Task[None]], writing: asyncio.Task[None]
    ) -> None:
        """End so that little has to be done again; a crash anywhere here costs a repetition, never a change.

        1. Nothing new is read, on either side.
        2. Statuses being written are finished and acknowledged, or cut off. Crash before 3: written again.
        3. The consumer commits what is acknowledged and leaves the group; nothing is written after that.
        4. Commands already queued are delivered. What is not is in the next list.
        5. The lease is given back, and another may lead: nothing of ours can come after what it sends.
           Crash before: it runs out.
        """
        self.rows.stop()
        await _cancel(others)
        await asyncio.wait([consuming])
        try:
            await asyncio.wait_for(self.reporter.drain(), DRAIN_SECONDS)
        except TimeoutError:
            log.warning("ended while a status was still being written; it will be written again")
        await _cancel([writing])
        await asyncio.to_thread(self.rows.close)
        await asyncio.gather(*(asyncio.to_thread(each.close, FLUSH_SECONDS) for each in self.publishers))
        await self.leadership.resign()

    def unready_because(self) -> str:
        """Why no work is done yet, "" if it is."""
        unassigned = "" if self.rows.was_assigned else "no partitions assigned yet"
        return self.leadership.unready_because() or unassigned or self.reporter.dead_letter_limit.reason

    def role(self) -> str:
        """What is to be said of a process that is well but does not follow the workspace: "standby"; else ""."""
        return "standby" if self.leadership.is_standby else ""

    def unhealthy_because(self) -> str:
        """Why this process should be replaced, "" if it need not."""
        return self._heartbeat.silence()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
