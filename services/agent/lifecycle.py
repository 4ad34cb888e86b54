"""The agent as a whole: runs until it is asked to end, and is taken down in an order that loses nothing."""

from __future__ import annotations

import asyncio

import faust

from services.agent.instances.engine_inspection import EngineInspection
from services.agent.shutdown import Shutdown
from services.agent.stream.engine_stream import EngineStream
from services.agent.stream.owned_instances import OwnedInstances
from services.common.kafka import Publisher
from services.common.telemetry import Heartbeat

DELIVERY_SECONDS = 5.0


class Agent:
    """What lives as long as the process does."""

    def __init__(
        self,
        app: faust.App,
        stream: EngineStream,
        instances: OwnedInstances,
        publisher: Publisher,
        inspection: EngineInspection,
        shutdown: Shutdown,
    ) -> None:
        self._app, self._stream, self._instances = app, stream, instances
        self._publisher, self._inspection, self._shutdown = publisher, inspection, shutdown
        self._heartbeat = Heartbeat()

    def not_ready(self) -> str:
        """Empty when every instance of ours is watched and worked for, else what is missing."""
        return self._shutdown.reason() or self._instances.not_ready() or self._stream.stalled()

    def unhealthy(self) -> str:
        """Why this process should be replaced, empty if it need not."""
        return self._heartbeat.silence() or self._stream.stalled()

    async def run(self) -> None:
        """Until the process is asked to end, or something fails that nobody handles."""
        beside = [
            asyncio.create_task(self._heartbeat.keep(), name="heartbeat"),
            asyncio.create_task(self._inspection.run(), name="inspection"),
        ]
        try:
            await self._shutdown.wait(asyncio.create_task(self._app.start(), name="faust"), *beside)
        finally:
            for task in beside:
                task.cancel()

    async def close(self) -> None:
        """A crash between two steps leaves events that are sent again, and effects that are found to be so."""
        # 1. No new effects.
        await self._stream.stop_work()
        # 2. Observations of finished effects arrive, which acknowledges their events.
        await asyncio.to_thread(self._publisher.flush, DELIVERY_SECONDS)
        await asyncio.sleep(0)
        # 3. faust commits what is acknowledged, and leaves the group.
        await self._app.stop()
        # 4. Nothing is sent any more.
        await asyncio.to_thread(self._publisher.close, DELIVERY_SECONDS)
