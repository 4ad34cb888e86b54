"""gitops.engine through faust: the stream of events, and who owns which partition.

What faust is used for here, and how its edges are dealt with:
- The stream is read with ``noack``; acknowledgements reach faust in order only (see ``acknowledgement``).
- A rebalance is eager: every partition is revoked, events in flight are sent again from the last commit. So on
  revocation all work stops and all open events are dropped.
- On assignment the partitions are read from their beginning (``topic_reader``): that is the desired state. Events
  between the last commit and the end are replayed by faust; until they are all taken in nothing is applied, otherwise a
  row of yesterday would undo what today's already says.
- Messages fetched while a rebalance goes on are dropped by faust, and a partition that was never committed is not
  sought back (aiokafka's ``seek_to_committed`` does nothing then): they would never come. ``_guard`` notices a position
  ahead of what was taken in, with nothing moving, and seeks back.
- A faust table for the desired state was tried. Its recovery stood still after "Restoring state from changelog topics"
  in one of seven failovers (``signal_recovery_end`` is cleared in the same turn in which it is set, so whoever begins
  to wait a moment later waits for ever), and its memory store recovers a standby from the beginning all the same.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faust
import structlog

from services.agent import SERVICE
from services.agent.desired_state import DesiredState
from services.agent.fleet import Fleet
from services.agent.intake import Intake
from services.agent.kafka_transport import PromptTransport
from services.agent.progress import Position, Progress
from services.agent.settings import AgentSettings
from services.agent.topic_reader import Backlog, TopicReader
from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import Topic
from services.common.settings import BrokerSettings
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

CATCH_UP_POLL_SECONDS = 0.02
CATCH_UP_QUIET_SECONDS = 2.0
GUARD_SECONDS = 0.5
PROGRESS_SECONDS = 30.0


def faust_app(settings: AgentSettings, topic: Topic, data: Path) -> faust.App:
    """The faust application: one consumer, no tables, no web server, no leader topic."""
    brokers = ";".join(f"kafka://{broker}" for broker in settings.kafka_bootstrap_servers.split(","))
    app = faust.App(
        settings.agent_group,
        broker=brokers,
        broker_credentials=_credentials(settings),
        datadir=str(data),  # made at the start, and left empty
        web_enabled=False,
        # Names this worker among others of one host.
        canonical_url=f"http://{socket.gethostname()}:{os.getpid()}",
        key_serializer="raw",
        value_serializer="raw",
        topic_partitions=topic.partitions,
        topic_disable_leader=True,
        topic_allow_declare=False,
        # Has faust use aiokafka's round robin: neighbouring partitions go to different agents.
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=min(1.0, settings.session_timeout_seconds / 5),
        broker_commit_interval=settings.commit_interval_seconds,
        broker_max_poll_records=1000,
        stream_buffer_maxsize=4096,
        # What is in flight at a rebalance or at the end is sent again: waiting for it would hold everybody up.
        stream_wait_empty=False,
    )
    app.transport = PromptTransport(app.conf.broker_consumer, app)
    return app


def _credentials(settings: BrokerSettings) -> faust.types.auth.CredentialsT | None:
    """``client_properties`` in faust's words."""
    protocol = settings.kafka_security_protocol
    ca = str(settings.kafka_ca) if settings.kafka_ca else None
    tls = ssl.create_default_context(cafile=ca) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=settings.kafka_username,
            password=settings.kafka_password.get_secret_value(),
            mechanism=settings.kafka_sasl_mechanism,
            ssl_context=tls,
        )
    return faust.SSLCredentials(tls) if tls else None


class EngineStream:
    """Connects faust's callbacks with the fleet and the intake."""

    def __init__(
        self,
        app: faust.App,
        topic: Topic,
        reader: TopicReader,
        desired: DesiredState,
        on_defect: Callable[[BaseException], None],
        progress: Progress,
    ) -> None:
        """``on_defect`` is told of whatever nobody handles: it ends the process."""
        self._app, self._reader, self._desired, self._on_defect = app, reader, desired, on_defect
        self._topic = topic.name
        self._source = app.topic(topic.name, key_type=bytes, value_type=bytes, partitions=topic.partitions)
        self._opening: asyncio.Task[None] | None = None
        self._progress = progress
        self._positions: dict[int, Position] = {}

    def stalled(self) -> str:
        """Why the process should be replaced; "" while the consumer gets on. May be called from any thread."""
        return self._progress.stalled()

    def connect(self, intake: Intake, fleet: Fleet) -> None:
        """Register what faust calls. Before the app starts."""
        self._intake, self._fleet = intake, fleet
        self._app.agent(self._source, name="engine", concurrency=1)(self._consume)
        self._app.on_partitions_revoked.connect(self._revoked, weak=False)
        self._app.on_partitions_assigned.connect(self._assigned, weak=False)

    async def _consume(self, stream: Any) -> None:
        try:
            async for event in stream.noack().events():
                await self._intake.take(event)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # faust would restart the agent and pass the event over
            self._on_defect(error)
            raise

    async def _revoked(self, *_: Any, **_rest: Any) -> None:
        """Before this returns the partitions are still ours, afterwards they may be another agent's."""
        await self._drop()

    async def stop_work(self) -> None:
        """Act on nothing any more; what is still reported is still acknowledged."""
        if self._opening is not None:
            self._opening.cancel()
        await self._fleet.stop()

    async def _drop(self) -> None:
        """Stop acting; what is open stays unacknowledged."""
        if self._opening is not None:
            self._opening.cancel()
        await self._fleet.suspend()
        self._intake.close()

    async def _assigned(self, *arguments: Any, **_rest: Any) -> None:
        """Take over in a task of its own: a rebalance waits for this to return."""
        _app, assigned = arguments
        partitions = {tp.partition for tp in assigned if tp.topic == self._topic}
        await self._drop()
        self._opening = asyncio.create_task(self._take_over(partitions), name="take over")

    async def _take_over(self, partitions: set[int]) -> None:
        """Know everything first, then act."""
        try:
            backlogs = await self._load(partitions)
            await self._fleet.assign(partitions, self._desired)
            self._intake.open()
            guard = asyncio.create_task(self._guard(backlogs), name="guard")
            progress = asyncio.create_task(self._follow_progress(partitions), name="progress")
            progress.add_done_callback(self._on_end_of_progress)
            try:
                await self._catch_up(backlogs)
                self._fleet.work(self._desired)
                log.info("working", rows=len(self._desired))
                await guard
            finally:
                guard.cancel()
                progress.cancel()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a task nobody awaits
            self._on_defect(error)
            raise

    async def _load(self, partitions: set[int]) -> dict[int, Backlog]:
        delays = Backoff(limit=5)
        while True:
            try:
                backlogs = await asyncio.to_thread(self._reader.backlogs, partitions)
                ends = {partition: backlog.end for partition, backlog in backlogs.items()}
                await self._desired.load(await asyncio.to_thread(self._reader.newest, ends))
            except Retry as error:
                log.warning("desired state not to be read yet", error=str(error))
                await asyncio.sleep(delays.next())
            else:
                return backlogs

    async def _catch_up(self, backlogs: Mapping[int, Backlog]) -> None:
        """Wait for every event of the backlogs. Transaction markers are offsets without events: quiet will do too."""
        now = asyncio.get_running_loop().time
        quiet_since, taken_before = now(), -1
        open_ends = {partition: backlog.end for partition, backlog in backlogs.items() if backlog.start < backlog.end}
        while now() - quiet_since < CATCH_UP_QUIET_SECONDS:
            offsets = self._intake.next_offsets()
            if all(offsets.get(partition, 0) >= end for partition, end in open_ends.items()):
                return
            if (taken := sum(offsets.values())) != taken_before:
                quiet_since, taken_before = now(), taken
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)

    async def _guard(self, backlogs: Mapping[int, Backlog]) -> None:
        """Measure the lag, and seek back where faust's position ran ahead of what it delivered. For ever."""
        seen: dict[int, tuple[int, int]] = {}
        sought: dict[int, tuple[int, int]] = {}
        while True:
            await asyncio.sleep(GUARD_SECONDS)
            for partition, backlog in backlogs.items():
                tp = faust.types.TP(self._topic, partition)
                if tp not in self._app.consumer.assignment():
                    return  # a rebalance has begun, which will end this task
                taken = max(backlog.start, self._intake.next_offsets().get(partition, 0))
                state = self._positions[partition] = (await self._app.consumer.position(tp) or 0, taken)
                highwater = self._app.consumer.highwater(tp) or 0
                metrics.LAG.labels(SERVICE, self._topic, partition).set(max(0, highwater - taken))
                if state[0] > taken and seen.get(partition) == state and sought.get(partition) != state:
                    log.warning("messages were dropped in a rebalance; seeking back", partition=partition, offset=taken)
                    sought[partition] = state
                    await self._app.consumer.seek(tp, taken)
                seen[partition] = state

    async def _follow_progress(self, partitions: set[int]) -> None:
        self._positions.clear()
        try:
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                await self.look_at_progress(partitions)
                if reason := self._progress.stalled():
                    log.error("the consumer does not get on", reason=reason)
        finally:
            self._progress.excuse()

    async def look_at_progress(self, partitions: set[int]) -> None:
        """Compare what the guard saw last with what the brokers have, which a guard that hangs does not learn."""
        try:
            ends = await asyncio.to_thread(self._reader.ends, partitions)
        except Retry:
            return self._progress.excuse()  # another process would find the brokers just as silent
        if self._intake.taking:
            return self._progress.excuse()
        return self._progress.look(self._positions, ends)

    def _on_end_of_progress(self, ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            self._on_defect(error)
