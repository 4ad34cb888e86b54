"""The agent as a whole: runs until it is asked to end, and shuts down in an order that loses nothing."""

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
    """Whether and why the process ends. Created in the event loop that it ends."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._defect: BaseException | None = None
        handle_stop_signals_in_loop(self._asked.set)

    def fail_with(self, error: BaseException) -> None:
        """End the process because of an unhandled error."""
        log.error("defect", error=repr(error), exc_info=error)
        self._defect = self._defect or error
        self._asked.set()

    def reason(self) -> str:
        """Why the process ends; empty while it should run."""
        return "stopping" if self._asked.is_set() else ""

    async def wait(self) -> None:
        """Return when the process is asked to end, or an error was not handled."""
        await self._asked.wait()

    def raise_defect(self) -> None:
        """Raise the unhandled error, if there was one."""
        if self._defect is not None:
            raise SystemExit(1) from self._defect


class Agent:
    """The parts that live as long as the process."""

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
        """``cluster``: if this agent cannot reach the API server, other agents may take the instances."""
        self._fleet, self._cluster = fleet, cluster
        self._app, self._stream, self._instances = app, stream, instances
        self._publisher, self._inspection, self._shutdown = publisher, inspection, shutdown
        self._heartbeat = Heartbeat()

    def not_ready(self) -> str:
        """Why the agent is not ready; empty if it watches and works for all its instances."""
        return (
            self._shutdown.reason() or self._instances.not_ready() or self._stream.stalled() or self._stream.held_back()
        )

    def unhealthy(self) -> str:
        """Why this process should be replaced; empty if it should not."""
        return self._heartbeat.silence() or self._stream.stalled()

    async def run(self) -> None:
        """Run until the process is asked to end, or an error is not handled."""
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
        """Shut down. After a crash between two steps, events are sent again and effects are found to exist."""
        # 1. No new effects.
        await self._stream.stop_work()
        # 2. Observations of finished effects arrive, which acknowledges their events.
        await asyncio.to_thread(self._publisher.flush, DELIVERY_SECONDS)
        await asyncio.sleep(0)
        # 3. faust commits what is acknowledged, and leaves the group.
        await self._app.stop()
        # 4. Nothing is sent any more.
        await asyncio.to_thread(self._publisher.close, DELIVERY_SECONDS)
