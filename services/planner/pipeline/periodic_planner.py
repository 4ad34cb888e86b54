"""What periodic tasks plan with: they find the events that are due by the clock, and this plans them.

A planner saves what is due only while it owns the partitions of the events. Otherwise it is fenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.common.clock import Clock
from services.common.errors import Poison
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, SweepDue
from services.planner.domain.policy import Policy
from services.planner.domain.sweeps import replace_part
from services.planner.pipeline.batch_consumer import BatchConsumer
from services.planner.pipeline.batch_failures import BatchFailures
from services.planner.pipeline.event_applier import EventApplier
from services.planner.pipeline.parked_replay import ParkedReplay


@dataclass
class PeriodicPlanner:
    """The parts of a planner that periodic tasks use."""

    consumer: BatchConsumer
    session: DatabaseSession
    policy: Policy
    clock: Clock
    applier: EventApplier
    parked_replay: ParkedReplay
    failures: BatchFailures

    def apply_due_events(self, events: Sequence[Event]) -> None:
        """Plan ``events``, which are due by the clock.

        If the database refuses them for good, each is planned alone. One that fails alone is skipped: it stays due, and
        each attempt is logged.
        """
        try:
            self.applier.apply_events(events, self.consumer.spans_of(event.partition for event in events))
        except Poison as error:
            if len(events) == 1:
                self.failures.record_failure(error)
                return
            for event in events:
                self.apply_due_events([event])

    def remove_part(self, due: SweepDue) -> None:
        """Remove some of the resources that a complete list lacked.

        If the database refuses that for good, the part is replaced by its halves. One resource alone is skipped.
        """
        part, spans = due.part, self.consumer.spans_of([due.part.partition])
        try:
            self.applier.apply_events([Event(due, part.partition, part.trace_id)], spans)
        except Poison as error:
            self.failures.record_failure(error)
            self.session.save_changes(BatchChanges(other=replace_part(due)), spans)
