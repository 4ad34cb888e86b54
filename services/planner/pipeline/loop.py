"""The planner's loop: consume a batch → decode → check origins → coalesce → plan its tenants → save → commit.

Transient failures are retried with the same batch. A message that the database rejects is isolated and becomes a dead
letter. A tenant on which a rule raises, or that cannot be placed, is parked. Anything else ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.errors import Poison, Retry
from services.common.kafka import TooManyDeadLetters
from services.common.telemetry import Heartbeat
from services.planner.database.connection import Unreachable
from services.planner.database.save import Fenced
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.policy import Policy
from services.planner.pipeline.batch_consumer import Batch, BatchConsumer
from services.planner.pipeline.batch_failures import BatchFailures
from services.planner.pipeline.cluster_topics import FindTopics
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.event_applier import EventApplier, coalesced, measured
from services.planner.pipeline.parked_replay import ParkedReplay
from services.planner.pipeline.periodic_planner import PeriodicPlanner
from services.planner.pipeline.report_origins import without_foreign_reports

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25
GATHER_SECONDS = 0.01
"""After a batch of more than one message the loop waits for so long: a batch costs more than a message."""


@dataclass
class Planner:
    """The loop, and the parts that it is made of."""

    consumer: BatchConsumer
    decoder: Decoder
    session: DatabaseSession
    policy: Policy
    batch_limit: int
    periodic: Callable[[PeriodicPlanner], None]
    """Called between batches, at least every ``POLL_SECONDS`` when there are none."""
    find_cluster_topics: FindTopics
    stopping: threading.Event = field(default_factory=threading.Event)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.failures = BatchFailures(self.session, self.heartbeat)
        self.applier = EventApplier(self.session, self.policy, self.find_cluster_topics, self.clock)
        self.parked_replay = ParkedReplay(
            self.consumer, self.decoder, self.session, self.applier, self.failures, self.heartbeat
        )
        self.periodic_planner = PeriodicPlanner(
            self.consumer, self.session, self.policy, self.clock, self.applier, self.parked_replay, self.failures
        )
        self._decode = measured("decode", self.decoder.decode_messages)
        self._coalesce = measured("coalesce", coalesced)
        self._acknowledge = measured("commit", self.consumer.acknowledge_batch)

    def run(self) -> None:
        """Run until ``stopping`` is set; the batch in hand is finished first."""
        while not self.stopping.is_set():
            self.heartbeat.beat()
            if self.consumer.lacks_starts:
                self._leave_until_reachable()
            batch = self.consumer.poll_batch(self.batch_limit, POLL_SECONDS)
            if batch.messages:
                self.run_batch(batch)
            self._run_periodic_tasks()
            if len(batch.messages) > 1:
                self.stopping.wait(GATHER_SECONDS)

    def process_batch(self, batch: Batch) -> None:
        """The life of a batch."""
        decoded = self._decode(batch.messages)
        events = self._coalesce(without_foreign_reports(decoded, self.session.find_engine_clusters))
        self.applier.apply_events(events, batch.spans)
        self.decoder.count_handled(batch.messages)
        self._acknowledge(batch)

    def run_batch(self, batch: Batch) -> bool:
        """Process ``batch``, without the messages that the database rejects.

        Returns whether it was done, as :meth:`retry_until_done` does.
        """
        delays = Backoff()
        while True:
            try:
                return self.retry_until_done(partial(self.process_batch, batch))
            except Poison as error:
                try:
                    return self._isolate_rejected(batch, error)
                except TooManyDeadLetters as held_back:
                    self.failures.record_failure(held_back)
            if self.stopping.wait(delays.next_delay()):
                return False

    def _isolate_rejected(self, batch: Batch, error: Poison) -> bool:
        """Try each message alone; one that fails alone becomes a dead letter.

        Returns whether all are done. After one that is not done, the others would not be done either.
        """
        if len(batch.messages) > 1:
            return all(self.run_batch(single) for single in batch.split_batch())
        self.decoder.give_up_messages([(batch.messages[0], error)])
        if done := self.retry_until_done(partial(self.session.save_changes, BatchChanges(), batch.spans)):
            self.consumer.acknowledge_batch(batch)
        return done

    def retry_until_done(self, work: Callable[[], None]) -> bool:
        """Do ``work``, again after each failure that may pass, until it is done or the process shall stop.

        Returns whether it was done. Raises Poison. If it was not done, nothing is lost, as the offsets have not moved.
        A planner that is fenced, or cannot reach the database, gives its partitions up until the group assigns some:
        if it claimed them again by itself, it would fence its successor.
        """
        delays = Backoff()
        while True:
            try:
                work()
            except Unreachable as error:
                self.failures.record_failure(error)
                self._leave_until_reachable()
                return False
            except Retry as error:
                self.failures.record_failure(error)
                if self.stopping.wait(delays.next_delay()):
                    return False
            except Fenced as error:
                self.failures.record_failure(error)
                self.consumer.rejoin_group()
                return False
            else:
                self.failures.clear_failure()
                return True

    def _run_periodic_tasks(self) -> None:
        """Try each task that is due once. After a failure, even a permanent one, the loop goes on with messages."""
        try:
            self.periodic(self.periodic_planner)
        except Unreachable as error:
            self.failures.record_failure(error)
            self._leave_until_reachable()
        except (Retry, Poison) as error:
            self.failures.record_failure(error)
        except Fenced as error:
            self.failures.record_failure(error)
            self.consumer.rejoin_group()
        else:
            self.failures.clear_failure()

    def _leave_until_reachable(self) -> None:
        """Leave the partitions to planners that may reach the database, until it answers us again."""
        self.consumer.leave_group()
        log.warning("left the group: the database is out of reach")
        while not self.stopping.is_set():
            self.heartbeat.beat()
            self.consumer.poll_batch(1, POLL_SECONDS)  # it gives its partitions up within polls
            if self.session.is_reachable():
                break
        else:
            return
        self.consumer.join_group()
        log.info("joining the group: the database answers")
