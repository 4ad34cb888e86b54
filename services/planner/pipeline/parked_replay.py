"""Plans what has happened to a parked tenant, or coalesces what is kept of it. Periodic tasks call this.

A parked tenant is one on which a rule raised, or that could not be placed (``parking.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from services.common.errors import Poison, Retry, Unavailable
from services.common.telemetry import Heartbeat
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import Failure, count_failure
from services.planner import SERVICE
from services.planner.database.save import Fenced, Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.events import Due, Event, MoveDue
from services.planner.pipeline.batch_consumer import BatchConsumer
from services.planner.pipeline.batch_failures import BatchFailures
from services.planner.pipeline.batch_planning import split_at_markers
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.event_applier import EventApplier, coalesced, report_changes
from services.planner.pipeline.parking import compacted, is_full, kept_event, parked_event, resolved
from services.planner.rows.consumption import ParkedEvent, ParkedTenant

log = structlog.get_logger(__name__)

PLANNED_AT_ONCE = 500
"""Events of a parked tenant that are planned together."""

Parts = Sequence[Sequence[Event]]
"""Events in their order; each part is written before the next is planned."""


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """The part of a tenant's events that the database refuses, and why."""

    part: int
    error: Poison


@dataclass
class ParkedReplay:
    """The replay of parked tenants, for one planner."""

    consumer: BatchConsumer
    decoder: Decoder
    session: DatabaseSession
    applier: EventApplier
    failures: BatchFailures
    heartbeat: Heartbeat

    def retry_parked(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent], shown: Sequence[Event]) -> None:
        """Plan what has happened to a parked tenant. If that fails, the tenant stays parked, whatever the reason.

        Events beyond the limits become dead letters first, because all others are planned in one transaction.

        Args:
            tenant: the tenant.
            rows: all its events that are kept.
            shown: a timer event for each of its resources: the status of each shows that the tenant is parked.
        """
        try:
            rows = self.coalesce_parked_events(tenant, rows) if is_full(rows) else rows
            events = coalesced([*(kept_event(row) for row in rows), *shown])
            parts: Parts = list(split_at_markers(events, PLANNED_AT_ONCE))
            spans = self._spans_of(tenant, rows)
            while refused := self._replay(tenant, parts, spans):
                parts = self._narrow_parts(tenant, parts, refused)
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
        """Replace ``rows``, all that is kept of a tenant, by those that are needed; return these.

        1. Events beyond the limits become dead letters. After a crash here, they become dead letters again.
        2. One transaction, which is fenced, replaces the rows by those that stay.
        """
        kept, beyond = compacted(rows)
        if beyond:
            self.decoder.give_up_kept(tenant, beyond, Poison("more has happened to a parked tenant than is kept"))
        written = Changes(unparked=(tenant.tenant_id,), parked=(tenant,), parked_events=tuple(kept))
        try:
            self.session.save_changes(BatchChanges(other=written), self._spans_of(tenant, rows))
        except Poison as error:  # more than PostgreSQL takes at once
            self.failures.record_failure(error)
            return rows
        return kept

    def _spans_of(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent]) -> Sequence[Span]:
        return self.consumer.spans_of({tenant.partition, *(row.partition for row in rows)})

    def _replay(self, tenant: ParkedTenant, parts: Parts, spans: Sequence[Span]) -> RefusedPart | None:
        """Unpark the tenant and plan all ``parts``, in one transaction. Returns the part that the database refuses."""
        self.session.write_changes(BatchChanges(other=Changes(unparked=(tenant.tenant_id,))), spans)
        planned: list[BatchChanges] = []
        for number, part in enumerate(parts):
            self.heartbeat.beat()
            try:
                changes = self.applier.plan_for_tenant(part, tenant.full_name)
                if any(each.tenant_id == tenant.tenant_id for each in changes.other.parked):
                    self.session.abandon_transaction()
                    return None
                self.session.write_changes(changes, spans)
            except Poison as error:
                self.session.abandon_transaction()
                return RefusedPart(number, error)
            planned.append(changes)
        shown = self.session.find_parked_statuses(tenant)
        self.applier.save_changes(resolved(tenant, shown, self.applier.clock.now()), spans)
        report_changes(planned)
        log.info("the tenant is parked no more", workspace=tenant.workspace, namespace=tenant.namespace)
        return None

    def _narrow_parts(self, tenant: ParkedTenant, parts: Parts, refused: RefusedPart) -> Parts:
        """``parts`` with the refused one in halves. If it is one event, that becomes a dead letter, and goes."""
        part, half = parts[refused.part], len(parts[refused.part]) // 2
        if half:
            return [*parts[: refused.part], part[:half], part[half:], *parts[refused.part + 1 :]]
        rows = [parked_event(tenant.tenant_id, event) for event in part if not isinstance(event.message, Due | MoveDue)]
        self.decoder.give_up_kept(tenant, rows, refused.error)
        return [*parts[: refused.part], *parts[refused.part + 1 :]]
