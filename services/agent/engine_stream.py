"""gitops.engine through faust: the stream, the table that keeps the desired state, and who owns which partition.

What faust is used for here, and how its edges are dealt with:
- The stream is read with ``noack``; acknowledgements reach faust in order only (see ``acknowledgement``).
- A rebalance is eager: every partition is revoked, events in flight are sent again from the last commit. So on
  revocation all work stops and all open events are dropped.
- After recovery the table is complete up to the last commit and beyond it; the events between the last commit and the
  end of the partition are replayed. Until they are all taken in nothing is applied: otherwise a row of yesterday would
  undo what the table already knows of today.
- The memory store reads a standby's changelog again from its beginning when it becomes active: standby replicas cost
  memory and save nothing, so there are none.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faust
import structlog

from services.agent.desired_state import Decode, DesiredState
from services.agent.fleet import Fleet
from services.agent.intake import Intake
from services.agent.kafka_transport import PromptTransport
from services.agent.settings import AgentSettings
from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import Topic
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

CATCH_UP_POLL_SECONDS = 0.02
CATCH_UP_QUIET_SECONDS = 1.0
LAG_SECONDS = 5.0

EndsOf = Callable[[set[int]], dict[int, int]]
"""The end offset of each of some partitions of the topic. Not by faust's consumer, whose connection is busy then."""


def faust_app(settings: AgentSettings, topic: Topic, data: Path) -> faust.App:
    """The faust application: one consumer, one changelog, no web server, no leader topic."""
    brokers = ";".join(f"kafka://{broker}" for broker in settings.kafka_bootstrap_servers.split(","))
    app = faust.App(
        settings.agent_group,
        broker=brokers,
        store="memory://",
        datadir=str(data),
        web_enabled=False,
        # Names this worker among others of one host.
        canonical_url=f"http://{socket.gethostname()}:{os.getpid()}",
        key_serializer="raw",
        value_serializer="raw",
        topic_partitions=topic.partitions,
        topic_replication_factor=topic.replication_factor,
        topic_disable_leader=True,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=min(1.0, settings.session_timeout_seconds / 5),
        broker_commit_interval=settings.commit_interval_seconds,
        broker_max_poll_records=1000,
        stream_buffer_maxsize=4096,
        # What is in flight at a rebalance or at the end is sent again: waiting for it would hold everybody up.
        stream_wait_empty=False,
        # Only the changelog is written by faust: nobody waits for it but the commit, which flushes it.
        producer_linger=0.02,
    )
    app.transport = PromptTransport(app.conf.broker_consumer, app)
    return app


class EngineStream:
    """Connects faust's callbacks with the fleet and the intake."""

    def __init__(
        self,
        app: faust.App,
        topic: Topic,
        decode: Decode,
        ends_of: EndsOf,
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``on_defect`` is told of whatever nobody handles: it ends the process."""
        self._app, self._ends_of, self._on_defect = app, ends_of, on_defect
        self._topic = topic.name
        source = app.topic(topic.name, key_type=bytes, value_type=bytes, partitions=topic.partitions)
        self._table = app.Table("desired", key_type=bytes, value_type=bytes, partitions=topic.partitions)
        self.desired = DesiredState(self._table, decode)
        self._source = source
        self._opening: asyncio.Task[None] | None = None

    def connect(self, intake: Intake, fleet: Fleet) -> None:
        """Register what faust calls. Before the app starts."""
        self._intake, self._fleet = intake, fleet
        self._app.agent(self._source, name="engine", concurrency=1)(self._consume)
        self._table.on_recover(self._recovered)
        self._app.on_partitions_revoked.connect(self._revoked, weak=False)

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
        if self._opening is not None:
            self._opening.cancel()
        await self._fleet.suspend()
        self._intake.close()

    async def _recovered(self) -> None:
        """The table is complete; faust now seeks to the committed offsets and lets events flow."""
        try:
            owned = {tp.partition for tp in self._owned()}
            ends = await self._to_be_replayed(owned)
            await self._load(owned)
            await self._fleet.assign(owned, self.desired)
            self._opening = asyncio.create_task(self._open(ends), name="catch up")
        except BaseException as error:  # faust does not look at what this raises
            self._on_defect(error)
            raise

    async def _load(self, partitions: set[int]) -> None:
        delays = Backoff(limit=5)
        while True:
            try:
                return await self.desired.load(partitions)
            except Retry as error:
                log.warning("desired state not to be read yet", error=str(error))
                await asyncio.sleep(delays.next())

    async def _open(self, ends: Mapping[int, int]) -> None:
        """Wait until all events that existed at the assignment were taken in, then let the fleet work."""
        try:
            await self._catch_up(ends)
            self._fleet.work(self.desired)
            log.info("working", rows=len(self.desired), replayed=len(ends))
            await self._watch_lag()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a task nobody awaits
            self._on_defect(error)
            raise

    async def _catch_up(self, ends: Mapping[int, int]) -> None:
        """Transaction markers are offsets without events: when no more events come, all have come."""
        now = asyncio.get_running_loop().time
        quiet_since, taken_before = now(), -1
        while now() - quiet_since < CATCH_UP_QUIET_SECONDS:
            offsets = self._intake.next_offsets()
            if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
                return
            if (taken := sum(offsets.values())) != taken_before:
                quiet_since, taken_before = now(), taken
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)

    async def _to_be_replayed(self, partitions: set[int]) -> dict[int, int]:
        """The ends of those partitions whose committed offset is not at their end."""
        ends = await asyncio.to_thread(self._ends_of, partitions)
        return {partition: end for partition, end in ends.items() if await self._position(partition) < end}

    async def _position(self, partition: int) -> int:
        return await self._app.consumer.position(faust.types.TP(self._topic, partition)) or 0

    async def _watch_lag(self) -> None:
        while True:
            for tp in self._owned():
                behind = (self._app.consumer.highwater(tp) or 0) - await self._position(tp.partition)
                metrics.LAG.labels("agent", self._topic, tp.partition).set(max(0, behind))
            await asyncio.sleep(LAG_SECONDS)

    def _owned(self) -> list[Any]:
        return [tp for tp in self._app.assignor.assigned_actives() if tp.topic == self._topic]
