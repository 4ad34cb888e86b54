"""The agent as a whole: runs until it is asked to end, and is taken down in an order that loses nothing."""

from __future__ import annotations

import asyncio

import faust
import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.instances.engine_inspection import EngineInspection
from services.agent.stream.engine_stream import EngineStream
from services.agent.stream.fleet_follower import FleetFollower
from services.agent.stream.owned_instances import OwnedInstances
from services.common.kafka import Publisher
from services.common.reachability import Reachability
from services.common.stop_signals import handle_stop_signals_in_loop
from services.common.telemetry import Heartbeat

log = structlog.get_logger(__name__)

DELIVERY_SECONDS = 5.0


class Shutdown:
    """Whether and why the process is to end. Made in the event loop that it ends."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._defect: BaseException | None = None
        handle_stop_signals_in_loop(self._asked.set)

    def fail_with(self, error: BaseException) -> None:
        """End because of an error that nothing handles."""
        log.error("defect", error=repr(error), exc_info=error)
        self._defect = self._defect or error
        self._asked.set()

    def reason(self) -> str:
        """Empty while the process shall live."""
        return "stopping" if self._asked.is_set() else ""

    async def wait(self) -> None:
        """Until the process is asked to end, or an error is not handled."""
        await self._asked.wait()

    def raise_defect(self) -> None:
        """End with the defect, if there was one."""
        if self._defect is not None:
            raise SystemExit(1) from self._defect


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
        *,
        fleet: FleetFollower,
        cluster: Reachability,
    ) -> None:
        """``cluster``: while this agent cannot reach it, others may have the instances."""
        self._fleet, self._cluster = fleet, cluster
        self._app, self._stream, self._instances = app, stream, instances
        self._publisher, self._inspection, self._shutdown = publisher, inspection, shutdown
        self._heartbeat = Heartbeat()

    def not_ready(self) -> str:
        """Empty when every instance of ours is watched and worked for, else what is missing."""
        return (
            self._shutdown.reason() or self._instances.not_ready() or self._stream.stalled() or self._stream.held_back()
        )

    def unhealthy(self) -> str:
        """Why this process should be replaced, empty if it need not."""
        return self._heartbeat.silence() or self._stream.stalled()

    async def run(self) -> None:
        """Until the process is asked to end, or an error is not handled."""
        tasks, consumer = BackgroundTasks(self._shutdown.fail_with), BackgroundTasks(self._shutdown.fail_with)
        tasks.start_task(self._heartbeat.keep_beating(), "heartbeat")
        await self._inspection.inspect_engines()  # one that does not answer deploys nothing new until it has
        tasks.start_task(self._inspection.run(), "inspection")
        tasks.start_task(self._fleet.follow(), "fleet")
        consumer.start_task(self._app.start(), "faust")
        stepping_aside = self._cluster.leave_while_silent(self._stream.leave_group, self._stream.join_group)
        tasks.start_task(stepping_aside, "reachability")
        try:
            await self._shutdown.wait()
        finally:
            tasks.cancel_all()

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
