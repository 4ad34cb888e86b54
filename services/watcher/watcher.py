"""The watcher as a whole: what runs concurrently, when it is ready, and the order in which it shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from services.common.kafka import Publisher
from services.common.reachability import Reachability
from services.common.telemetry import Heartbeat
from services.watcher.leadership import Leadership
from services.watcher.rows.row_stream import RowStream

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 3.0
FLUSH_SECONDS = 3.0


@dataclass(slots=True)
class Watcher:
    """The parts of one watcher."""

    leadership: Leadership
    streams: Sequence[RowStream[Any]]
    """The streams of statuses and of child objects."""
    publishers: Sequence[Publisher]
    cluster: Reachability | None = None
    """Set if there are other watchers: these write everything while this one cannot reach the API server."""
    _heartbeat: Heartbeat = field(default_factory=Heartbeat)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set or a part cannot go on; then end in order. Raises what that part raised."""
        consuming = [asyncio.create_task(stream.consume()) for stream in self.streams]
        writing = [asyncio.create_task(stream.write()) for stream in self.streams]
        feeding = asyncio.create_task(self.leadership.run())
        waiting = [asyncio.create_task(_until(stop)), asyncio.create_task(self._heartbeat.keep_beating())]
        if self.cluster is not None:
            stepping_aside = self.cluster.leave_while_silent(self._leave_groups, self._join_groups)
            waiting.append(asyncio.create_task(stepping_aside))
        try:
            done, _ = await asyncio.wait([*consuming, *writing, feeding, *waiting], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end(consuming, [feeding, *waiting], writing)

    async def _leave_groups(self) -> None:
        for stream in self.streams:
            await stream.consumer.leave_group()

    async def _join_groups(self) -> None:
        for stream in self.streams:
            await stream.consumer.join_group()

    async def _end(
        self,
        consuming: list[asyncio.Task[None]],
        others: list[asyncio.Task[None]],
        writing: list[asyncio.Task[None]],
    ) -> None:
        """End so that little has to be done again; a crash anywhere here costs a repetition, never a change.

        1. Nothing new is read, on either side.
        2. Rows being written are finished and acknowledged, or cut off. Crash before 3: written again.
        3. The consumers commit what is acknowledged and leave their groups; nothing is written after that.
        4. Commands already queued are delivered. What is not is in the next list.
        5. The lease is given back, and another may lead: nothing of ours can come after what it sends.
           Crash before: it runs out.
        """
        for stream in self.streams:
            stream.consumer.stop()
        await _cancel(others)
        await asyncio.wait(consuming)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(stream.delivery.drain() for stream in self.streams))
        except TimeoutError:
            log.warning("ended while a row was still being written; it will be written again")
        await _cancel(writing)
        await asyncio.gather(*(asyncio.to_thread(stream.consumer.close) for stream in self.streams))
        await asyncio.gather(*(asyncio.to_thread(each.close, FLUSH_SECONDS) for each in self.publishers))
        await self.leadership.resign()

    def unready_because(self) -> str:
        """Why no work is done yet, "" if it is."""
        streams = (stream.consumer.unready_because() for stream in self.streams)
        return self.leadership.unready_because() or next(filter(None, streams), "")

    def role(self) -> str:
        """The role of a healthy process: "standby" if it does not follow the workspace, else empty."""
        return "standby" if self.leadership.is_standby else ""

    def unhealthy_because(self) -> str:
        """Why this process should be replaced; empty if it should not."""
        return self._heartbeat.silence()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
