"""Plans events and saves what they change. The loop, periodic tasks and the replay of parked tenants all call this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

import structlog

from services.common.clock import Clock, SystemClock
from services.common.errors import Poison
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import BATCH_SECONDS, RESOURCES_SWEPT, Failure, count_failure
from services.planner import SERVICE
from services.planner.database.save import Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.cluster_topics import FindTopics, with_cluster_topics
from services.planner.pipeline.coalesce import coalesce
from services.planner.rows.tenants import TenantName

log = structlog.get_logger(__name__)

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


def measured(step: str, function: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
    """``function``; the time that each call takes is observed as ``step`` of a batch."""
    seconds = BATCH_SECONDS.labels(SERVICE, step)

    def timed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
        with seconds.time():
            return function(*args, **kwargs)

    return timed


def coalesced(events: Sequence[Event]) -> Sequence[Event]:
    """``events`` without those that are replaced; all of them if ``coalesce`` fails, as it only saves work."""
    try:
        return coalesce(events)
    except Exception as defect:
        count_failure(SERVICE, Failure.DEFECT, "coalesce")
        log.error("events are not coalesced", error=f"{type(defect).__name__} at {raised_at(defect)}")  # noqa: TRY400
        return events


@dataclass
class EventApplier:
    """Turns events into changes, and changes into rows."""

    session: DatabaseSession
    policy: Policy
    find_cluster_topics: FindTopics
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        for kind in self.policy.kinds.kinds:  # so that the first that is swept is an increase
            RESOURCES_SWEPT.labels(SERVICE, kind.name)
        self._plan = measured("plan", plan_batch)
        self._save: Callable[[BatchChanges, Sequence[Span]], None] = measured("save", self.session.save_changes)

    def apply_events(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """Write effects and offsets in one transaction. No transaction is open while the brokers are asked.

        Raises Poison if the database, or a rule of the fleet, rejects an event for good; no transaction is open then.
        """
        try:
            self._apply_events(events, spans)
        except Poison:
            self.session.abandon_transaction()
            raise

    def _apply_events(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        *before, last = split_at_markers(with_cluster_topics(events, self.find_cluster_topics))
        planned: list[BatchChanges] = []
        for part in before:
            planned.append(self._plan(part, self.session, self.policy, self.clock.now()))
            self.session.write_changes(planned[-1], [replace(span, next=span.expected) for span in spans])
        planned.append(self._plan(last, self.session, self.policy, self.clock.now()))
        self.save_changes(planned[-1], spans)
        report_changes(planned)

    def plan_for_tenant(self, events: Sequence[Event], tenant: TenantName) -> BatchChanges:
        """What ``events`` change of the tenants of one name; nothing is written."""
        return self._plan(events, self.session, self.policy, self.clock.now(), tenant)

    def save_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        """Write ``changes`` and the offsets, and commit."""
        self._save(changes, spans)


def report_changes(committed: Sequence[BatchChanges]) -> None:
    """Count what sweeps removed, and log what was not done. Called once the changes are committed."""
    for changes in committed:
        for kind, _ in changes.swept:
            RESOURCES_SWEPT.labels(SERVICE, kind).inc()
        _report_oversized(changes)
        _report_refused_sweeps(changes)


def _report_oversized(changes: BatchChanges) -> None:
    oversized = [key for tenant in changes.tenants for key in tenant.written.oversized]
    for instance, kind, namespace, name, _ in oversized:
        count_failure(SERVICE, Failure.REFUSED, "manifest")
        log.error("manifest too long; it stays as it is", instance=instance, kind=kind, object=f"{namespace}/{name}")


def _report_refused_sweeps(changes: BatchChanges) -> None:
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
