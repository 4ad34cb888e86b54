"""Reports of provisioners about installations, as rows. Pure.

A report has the brokers' time: one that is read again after later ones changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.common.messages import EngineInstallation, Observation
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.domain.fleet.reports.report_rows import Installation


def decide_installations(events: Iterable[Event]) -> Changes:
    """The newest report of each instance; the database keeps a newer one."""
    newest: dict[str, Installation] = {}
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, event=EngineInstallation() as report, observed_at=at):
                row = Installation(instance, event.partition, report.phase, report.version, report.message, at)
                if instance not in newest or newest[instance].reported_at <= at:
                    newest[instance] = row
    return Changes(engine_installations=tuple(newest.values()))


def is_of_installation(event: Event) -> bool:
    """Whether an event is the report of a provisioner."""
    match event.message:
        case Observation(event=EngineInstallation()):
            return True
        case _:
            return False
