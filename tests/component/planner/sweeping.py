"""What the clock has planners do after a complete list: remove what it lacked, part by part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from services.planner.database.periodic_queries import find_due_sweep
from services.planner.database.save import Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event, SweepDue
from services.planner.domain.policy import Policy
from services.planner.pipeline.batch_planning import plan_batch


def due_sweep(session: DatabaseSession, partition: int = 0) -> SweepDue | None:
    with session.connection() as connection:
        return find_due_sweep(connection, [partition])


def remove_part(
    session: DatabaseSession, due: SweepDue, policy: Policy, now: datetime, spans: Sequence[Span] = ()
) -> Changes:
    """A transaction; returns what it has written."""
    event = Event(due, due.part.partition, due.part.trace_id)
    changes = plan_batch([event], session, policy, now)
    session.save_changes(changes, spans)
    return changes.written


def remove_parts(
    session: DatabaseSession, policy: Policy, now: datetime, partition: int = 0, most: int = sys.maxsize
) -> list[Changes]:
    """All that are left, or ``most`` of them."""
    written: list[Changes] = []
    while len(written) < most and (due := due_sweep(session, partition)) is not None:
        written.append(remove_part(session, due, policy, now))
    return written
