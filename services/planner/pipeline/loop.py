"""The planner's loop: consume a batch → decode → check origins → coalesce → plan its tenants → save → commit.

Transient failures are retried with the same batch. A message that the database rejects is isolated and becomes a dead
letter. A tenant on which a rule raises, or that cannot be placed, is parked. Anything else ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ParamSpec, TypeVar

import structlog

from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.errors import Poison, Retry, Unavailable
from services.common.kafka import TooManyDeadLetters
from services.common.telemetry import Heartbeat
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import BATCH_SECONDS, RESOURCES_SWEPT, Failure, count_failure
from services.planner import SERVICE
from services.planner.database.connection import Unreachable
from services.planner.database.save import Fenced, Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.events import Due, Event, MoveDue, SweepDue
from services.planner.domain.policy import Policy
from services.planner.domain.sweeps import replace_part
from services.planner.pipeline.batch_consumer import Batch, BatchConsumer
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.cluster_topics import FindTopics, with_cluster_topics
from services.planner.pipeline.coalesce import coalesce
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.parking import compacted, is_full, kept_event, parked_event, resolved
from services.planner.pipeline.report_origins import without_foreign_reports
from services.planner.rows.consumption import ParkedEvent, ParkedTenant

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25
GATHER_SECONDS = 0.01
"""A batch costs more than a message: if more than one has come at a time, the next may gather for so long."""
KEPT_AT_ONCE = 500
"""Events of a parked tenant that are planned together."""

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


def measured(step: str, function: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
    """``function``, with the time it takes observed as ``step`` of a batch."""
    seconds = BATCH_SECONDS.labels(SERVICE, step)

    def timed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
        with seconds.time():
            return function(*args, **kwargs)

    return timed


def coalesced(events: Sequence[Event]) -> Sequence[Event]:
    """``coalesce`` only saves work: where it fails, all that happened is planned."""
    try:
        return coalesce(events)
    except Exception as defect:
        count_failure(SERVICE, Failure.DEFECT, "coalesce")
        log.error("events are not coalesced", error=f"{type(defect).__name__} at {raised_at(defect)}")  # noqa: TRY400
        return events


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """Which part of what was kept the database does not take, and why."""

    part: int
    error: Poison


@dataclass
class Planner:
    """The loop and the steps it is made of."""

    consumer: BatchConsumer
    decoder: Decoder
    session: DatabaseSession
    policy: Policy
    batch_limit: int
    periodic: Callable[[Planner], None]
    """Called between batches, at least every ``POLL_SECONDS`` when there are none."""
    find_cluster_topics: FindTopics
    stopping: threading.Event = field(default_factory=threading.Event)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    clock: Clock = field(default_factory=SystemClock)
    failing: str = ""
    """Why the present batch cannot be done; empty if it can."""

    def __post_init__(self) -> None:
        for kind in self.policy.kinds.kinds:  # so that the first that is swept is an increase
            RESOURCES_SWEPT.labels(SERVICE, kind.name)
        self._decode = measured("decode", self.decoder.decode_messages)
        self._coalesce = measured("coalesce", coalesced)
        self._plan = measured("plan", plan_batch)
        self._save: Callable[[BatchChanges, Sequence[Span]], None] = measured("save", self.session.save_changes)
        self._acknowledge = measured("commit", self.consumer.acknowledge_batch)

    def run(self) -> None:
        """Until ``stopping`` is set; the batch in hand is finished first."""
        while not self.stopping.is_set():
            self.heartbeat.beat()
            if self.consumer.lacks_starts:
                self._step_aside()
            batch = self.consumer.poll_batch(self.batch_limit, POLL_SECONDS)
            if batch.messages:
                self._until_done(batch)
            self._keep_up()
            if len(batch.messages) > 1:
                self.stopping.wait(GATHER_SECONDS)

    def process_batch(self, batch: Batch) -> None:
        """The life of a batch."""
        decoded = self._decode(batch.messages)
        events = self._coalesce(without_foreign_reports(decoded, self.session.find_engine_clusters))
        self.apply_events(events, batch.spans)
        self.decoder.count_handled(batch.messages)
        self._acknowledge(batch)

    def apply_events(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """Effects and offsets, in one transaction. No transaction is open while the brokers are asked."""
        *before, last = split_at_markers(with_cluster_topics(events, self.find_cluster_topics))
        planned: list[BatchChanges] = []
        for part in before:
            planned.append(self._plan(part, self.session, self.policy, self.clock.now()))
            self.session.write_changes(planned[-1], [replace(span, next=span.expected) for span in spans])
        planned.append(self._plan(last, self.session, self.policy, self.clock.now()))
        self._save(planned[-1], spans)
        self._report(planned)

    def _report(self, written: Sequence[BatchChanges]) -> None:
        """Tell operators what was not done, and what was that no event had asked for. Once it is committed."""
        for changes in written:
            for kind, _ in changes.swept:
                RESOURCES_SWEPT.labels(SERVICE, kind).inc()
            self._complain(changes)

    def _complain(self, changes: BatchChanges) -> None:
        oversized = [key for tenant in changes.tenants for key in tenant.written.oversized]
        for instance, kind, namespace, name, _ in oversized:
            count_failure(SERVICE, Failure.REFUSED, "manifest")
            log.error(
                "manifest too long; it stays as it is", instance=instance, kind=kind, object=f"{namespace}/{name}"
            )
        for sweep in changes.other.refused_sweeps:
            count_failure(SERVICE, Failure.REFUSED, "resync")
            log.error(
                "resync would remove too much; nothing was removed, see 'gitopsctl resync status'",
                source=sweep.source,
                kind=sweep.kind,
                partition=sweep.partition,
                epoch=sweep.epoch,
                known=sweep.known,
            )

    def _keep_up(self) -> None:
        """What is due by the clock is tried once and then again when it is due: messages do not wait for it.

        Not even if the database refuses it for good.
        """
        try:
            self.periodic(self)
        except Unreachable as error:
            self._failed(error)
            self._step_aside()
        except (Retry, Poison) as error:
            self._failed(error)
        except Fenced as error:
            self._failed(error)
            self.consumer.rejoin_group()
        else:
            self.failing = ""

    def _step_aside(self) -> None:
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

    def look_again(self, events: Sequence[Event]) -> None:
        """Look at what the clock says is due; whoever does not own a partition any more is fenced.

        What the database refuses for good is passed over, alone: it is due again, and the log says so each time.
        """
        try:
            self.apply_events(events, self.consumer.spans_of(event.partition for event in events))
        except Poison as error:
            if len(events) == 1:
                self._failed(error)
                return
            for event in events:
                self.look_again([event])

    def remove_part(self, due: SweepDue) -> None:
        """Remove a part of what a complete list lacked; whoever does not own its partition any more is fenced.

        If the database refuses it for good, its halves take its place, and one resource alone is passed over.
        """
        part, spans = due.part, self.consumer.spans_of([due.part.partition])
        try:
            self.apply_events([Event(due, part.partition, part.trace_id)], spans)
        except Poison as error:
            self._failed(error)
            self.session.save_changes(BatchChanges(other=replace_part(due)), spans)

    def retry_parked(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent], shown: Sequence[Event]) -> None:
        """Plan what has happened to a parked tenant; it stays parked if that still fails, whatever the reason.

        ``shown``: timer events of all its resources, because all of them show that it is parked. What is more than is
        kept is given up first: all the rest is planned in one transaction.
        """
        try:
            rows = self.coalesce_parked_events(tenant, rows) if is_full(rows) else rows
            events = coalesced([*(kept_event(row) for row in rows), *shown])
            parts = list(split_at_markers(events, KEPT_AT_ONCE))
            spans = self.consumer.spans_of({tenant.partition, *(row.partition for row in rows)})
            while refused := self._replay(tenant, parts, spans):
                parts = self._narrowed(tenant, parts, refused)
        except (Retry, Fenced, Unavailable):
            raise
        except Exception as defect:
            self.session.abandon_transaction()
            count_failure(SERVICE, Failure.DEFECT, "parked")
            log.error(  # noqa: TRY400 - the text of the exception may hold a tenant's values
                "the tenant stays parked",
                workspace=tenant.workspace,
                namespace=tenant.namespace,
                error=f"{type(defect).__name__} at {raised_at(defect)}",
            )

    def coalesce_parked_events(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent]) -> Sequence[ParkedEvent]:
        """Keep of ``rows``, all that is kept of a tenant, what has to be; returns that.

        1. What is beyond the limit becomes dead letters. A crash after it makes them again.
        2. In one transaction, which is fenced, the rows are replaced by those that stay.
        """
        kept, beyond = compacted(rows)
        if beyond:
            self.decoder.give_up_kept(tenant, beyond, Poison("more has happened to a parked tenant than is kept"))
        spans = self.consumer.spans_of({tenant.partition, *(row.partition for row in rows)})
        written = Changes(unparked=(tenant.tenant_id,), parked=(tenant,), parked_events=tuple(kept))
        try:
            self.session.save_changes(BatchChanges(other=written), spans)
        except Poison as error:  # more than PostgreSQL takes at once
            self._failed(error)
            return rows
        return kept

    def _replay(
        self, tenant: ParkedTenant, parts: Sequence[Sequence[Event]], spans: Sequence[Span]
    ) -> RefusedPart | None:
        """All ``parts`` in one transaction, in which the tenant is parked no more; returns what is refused."""
        self.session.write_changes(BatchChanges(other=Changes(unparked=(tenant.tenant_id,))), spans)
        planned: list[BatchChanges] = []
        for number, part in enumerate(parts):
            self.heartbeat.beat()
            try:
                changes = self._plan(part, self.session, self.policy, self.clock.now(), tenant.full_name)
                if any(each.tenant_id == tenant.tenant_id for each in changes.other.parked):
                    self.session.abandon_transaction()
                    return None
                self.session.write_changes(changes, spans)
            except Poison as error:
                self.session.abandon_transaction()
                return RefusedPart(number, error)
            planned.append(changes)
        self._save(resolved(tenant, self.session.find_parked_statuses(tenant), self.clock.now()), spans)
        self._report(planned)
        log.info("the tenant is parked no more", workspace=tenant.workspace, namespace=tenant.namespace)
        return None

    def _narrowed(
        self, tenant: ParkedTenant, parts: list[Sequence[Event]], refused: RefusedPart
    ) -> list[Sequence[Event]]:
        """The part that the database refuses in halves; without it if it is one event, which is given up."""
        part, half = parts[refused.part], len(parts[refused.part]) // 2
        if half:
            return [*parts[: refused.part], part[:half], part[half:], *parts[refused.part + 1 :]]
        rows = [parked_event(tenant.tenant_id, event) for event in part if not isinstance(event.message, Due | MoveDue)]
        self.decoder.give_up_kept(tenant, rows, refused.error)
        return [*parts[: refused.part], *parts[refused.part + 1 :]]

    def _until_done(self, batch: Batch) -> bool:
        delays = Backoff()
        while True:
            try:
                return self.until_done(partial(self.process_batch, batch))
            except Poison as error:
                try:
                    return self._narrow_down(batch, error)
                except TooManyDeadLetters as held_back:
                    self._failed(held_back)
            if self.stopping.wait(delays.next_delay()):
                return False

    def _narrow_down(self, batch: Batch, error: Poison) -> bool:
        """One message is to blame: each is tried alone, the one that fails alone is given up.

        Returns whether all are done; after one that is not, the rest would not be either.
        """
        if len(batch.messages) > 1:
            return all(self._until_done(single) for single in batch.split_batch())
        self.decoder.give_up_messages([(batch.messages[0], error)])
        if done := self.until_done(partial(self.session.save_changes, BatchChanges(), batch.spans)):
            self.consumer.acknowledge_batch(batch)
        return done

    def until_done(self, work: Callable[[], None]) -> bool:
        """Do ``work``, again after each failure that may pass, until it is done or the process shall stop.

        Returns whether it was done. Raises Poison. If it was not done, nothing is lost: the offsets have not moved, and
        who is fenced, or cannot reach the database, owns nothing until the group says so. To take its partitions up
        again would fence its successor.
        """
        delays = Backoff()
        while True:
            try:
                work()
            except Unreachable as error:
                self._failed(error)
                self._step_aside()
                return False
            except Retry as error:
                self._failed(error)
                if self.stopping.wait(delays.next_delay()):
                    return False
            except Fenced as error:
                self._failed(error)
                self.consumer.rejoin_group()
                return False
            else:
                self.failing = ""
                return True

    def _failed(self, error: Exception) -> None:
        self.session.abandon_transaction()
        self.failing = str(error)
        self.heartbeat.beat()
        count_failure(SERVICE, Failure.FENCED if isinstance(error, Fenced) else error, "batch")
        log.warning("batch not done", error=str(error), type=type(error).__name__)
