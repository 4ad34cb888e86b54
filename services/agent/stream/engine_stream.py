"""The engine cluster's topic through faust: the stream of events, and who owns which partition.

What faust is used for here, and how its edges are dealt with:
- The topic is read without faust's acknowledgements: the OffsetTracker says what may be committed (see ``faust_app``).
- A rebalance is eager: every partition is revoked, events in flight are sent again from the last commit. So on
  revocation all work stops and all open events are dropped.
- On assignment the partitions are read from their beginning (``SnapshotReader``): that is the desired state, and work
  begins with it. Events between the last commit and the end are replayed by faust, however late; the offsets tell which
  of them are older than what was read (``desired_state``): a row of yesterday must not undo what today's says.
- Messages fetched while a rebalance goes on are dropped by faust, and a partition that was never committed is not
  sought back (aiokafka's ``seek_to_committed`` does nothing then): they would never come. ``_guard`` notices a position
  ahead of what was consumed, with nothing moving, and seeks back.
- A faust table for the desired state was tried. Its recovery stood still after "Restoring state from changelog topics"
  in one of seven failovers (``signal_recovery_end`` is cleared in the same turn in which it is set, so whoever begins
  to wait a moment later waits for ever), and its memory store recovers a standby from the beginning all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import faust
import structlog

from services.agent import SERVICE
from services.agent.background_tasks import BackgroundTasks
from services.agent.stream.desired_state import DesiredState, Snapshot, SnapshotReader
from services.agent.stream.faust_app import take_part
from services.agent.stream.message_handler import MessageHandler
from services.agent.stream.owned_instances import OwnedInstances
from services.agent.stream.stall_detector import Position, StallDetector
from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import Topic, TopicPartition
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

GUARD_SECONDS = 0.5
PROGRESS_SECONDS = 30.0


class EngineStream:
    """Connects faust's callbacks with the owned instances and the message handler."""

    def __init__(
        self,
        app: faust.App,
        topic: Topic,
        reader: SnapshotReader,
        desired: DesiredState,
        on_defect: Callable[[BaseException], None],
        stalls: StallDetector,
    ) -> None:
        """``on_defect`` is called with an unhandled error: it ends the process."""
        self._app, self._reader, self._desired, self._on_defect = app, reader, desired, on_defect
        self._tasks = BackgroundTasks(on_defect)
        self._topic = topic.name
        self._source = app.topic(topic.name, key_type=bytes, value_type=bytes, acks=False)
        self._stalls = stalls
        self._positions: dict[int, Position] = {}

    def stalled(self) -> str:
        """Why the process should be replaced; empty while the consumer makes progress.

        May be called from any thread.
        """
        return self._stalls.stalled()

    def held_back(self) -> str:
        """Why messages cannot be given up, so that none is consumed; empty if they can."""
        return self._messages.limit.reason

    def connect_callbacks(self, messages: MessageHandler, instances: OwnedInstances) -> None:
        """Register faust's callbacks, before the app starts."""
        self._messages, self._instances, self._offsets = messages, instances, messages.offsets
        self._app.agent(self._source, name="engine", concurrency=1)(self._consume)
        self._app.on_partitions_revoked.connect(self._revoked, weak=False)
        self._app.on_partitions_assigned.connect(self._assigned, weak=False)

    async def _consume(self, stream: Any) -> None:
        try:
            async for event in stream.events():
                await self._messages.handle_message(event.message)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # faust would restart the agent and pass the event over
            self._on_defect(error)
            raise

    async def _revoked(self, *_: Any, **_rest: Any) -> None:
        """Until this returns, the partitions are ours; afterwards they may be another agent's."""
        await self._drop()

    async def leave_group(self) -> None:
        """Leave the instances to other agents, once no work of ours is running."""
        await self._drop()
        take_part(self._app, wanted=False)

    async def join_group(self) -> None:
        """Join the group again."""
        take_part(self._app, wanted=True)

    async def stop_work(self) -> None:
        """Stop all work. Reports under way are still acknowledged."""
        self._tasks.cancel_all()
        await self._instances.stop()

    async def _drop(self) -> None:
        """Stop work; open messages stay unacknowledged."""
        self._tasks.cancel_all()
        await self._instances.suspend()
        self._messages.revoke_partitions()

    async def _assigned(self, *arguments: Any, **_rest: Any) -> None:
        """Take over in a task of its own, because a rebalance waits for this to return."""
        _app, assigned = arguments
        partitions = {tp.partition for tp in assigned if tp.topic == self._topic}
        await self._drop()
        self._tasks.start_task(self._take_over(partitions), "take over")

    async def _take_over(self, partitions: set[int]) -> None:
        """Load all rows first, then start work."""
        snapshot = await self._load_snapshot(partitions)
        await self._instances.assign_partitions(partitions, self._desired)
        self._messages.assign_partitions(snapshot.starts)
        log.info("working", rows=len(self._desired))
        self._tasks.start_task(self._follow_progress(partitions), "progress")
        await self._guard(snapshot.starts)

    async def _load_snapshot(self, partitions: set[int]) -> Snapshot:
        delays = Backoff(limit=5)
        while True:
            try:
                snapshot = await asyncio.to_thread(self._reader.read_snapshot, partitions)
                await self._desired.load_snapshot(snapshot)
            except Retry as error:
                log.warning("desired state not to be read yet", error=str(error))
                await asyncio.sleep(delays.next_delay())
            else:
                return snapshot

    async def _guard(self, partitions: Iterable[TopicPartition]) -> None:
        """Measure the lag, and seek back where faust's position ran ahead of what it delivered. For ever."""
        seen: dict[int, Position] = {}
        sought: dict[int, Position] = {}
        while True:
            await asyncio.sleep(GUARD_SECONDS)
            for source in partitions:
                tp, partition = faust.types.TP(*source), source.partition
                if tp not in self._app.consumer.assignment():
                    return  # a rebalance has begun, which will end this task
                consumed = self._offsets.next_offset(source) or 0
                state = self._positions[partition] = (await self._app.consumer.position(tp) or 0, consumed)
                lag = (self._app.consumer.highwater(tp) or 0) - (self._offsets.committable_offset(source) or 0)
                metrics.LAG.labels(SERVICE, *source).set(max(0, lag))
                if state[0] > consumed and seen.get(partition) == state and sought.get(partition) != state:
                    log.warning("messages dropped in a rebalance; seeking back", partition=partition, offset=consumed)
                    sought[partition] = state
                    await self._app.consumer.seek(tp, consumed)
                seen[partition] = state

    async def _follow_progress(self, partitions: set[int]) -> None:
        self._positions.clear()
        try:
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                await self.check_progress(partitions)
                if reason := self._stalls.stalled():
                    log.error("the consumer does not get on", reason=reason)
        finally:
            self._stalls.reset()

    async def check_progress(self, partitions: set[int]) -> None:
        """Compare what the guard last saw with the brokers' state, which a hanging guard does not learn."""
        try:
            ends = await asyncio.to_thread(self._reader.end_offsets, partitions)
        except Retry:
            return self._stalls.reset()  # another process would find the brokers just as silent
        if self._messages.is_excused:
            return self._stalls.reset()
        in_hand = self._messages.in_hand
        return self._stalls.record_positions(self._positions, ends, in_hand.partition if in_hand else None)
