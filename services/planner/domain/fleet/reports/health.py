"""The health of engine instances, by the reports of their agents. Pure.

Agents repeat their reports. If none has come for longer than operators lay down, the health is unknown; the row has the
time at which that is due. A report has the brokers' time: one that is read again after later ones changes nothing, and
of two with the same time the later one in the log counts. How long an agent has been silent is measured by the
planner's clock, so brokers whose clock is behind make no instance silent.

``since`` begins anew when an instance gets out of reach, and when it can be reached again, though it is down all the
time: meanwhile nobody could see or mend what was wrong in it.

Each change of health, reason or version, which are streamed, is a row of the audit. A report that repeats these three
is none, though its message may have other numbers. A reason that flaps has as many audit rows as its instance's row
has changes: an agent reports a judgement when it changes, and else each minute, and of several reports in a batch only
the newest is left (``pipeline/coalesce.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from services.common.messages import EngineHealth, Health, Observation
from services.planner.domain.audit import health_record
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event, HealthDue
from services.planner.domain.fleet.reports.report_rows import OUT_OF_REACH, SILENT, InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample
from services.planner.rows.audit import AuditRecord


def decide_health(
    events: Iterable[Event], known: Mapping[str, InstanceHealth], now: datetime, patience: timedelta
) -> Changes:
    """Apply reports, and silences that are due, in their order.

    Args:
        events: those of a batch that are about the health of an instance.
        known: the health of these instances before, by their ids.
        now: time of events that carry none.
        patience: how long an agent may be silent.
    """
    health, samples = dict(known), dict[tuple[str, datetime], EngineSample]()
    audit: list[AuditRecord] = []
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, event=EngineHealth() as report, observed_at=at):
                before = health.get(instance)
                if before is None or _is_news(before, at, now):
                    health[instance] = _reported(instance, report, event.partition, at, before, max(at, now) + patience)
                    audit += _audited(health[instance], before, at)
                    if report.applications is not None:
                        samples[instance, at] = _sample(instance, report, report.applications, at)
            case HealthDue(engine_instance_id=instance) if instance in health:
                before = health[instance]
                health[instance] = _silent(before, now)
                audit += _audited(health[instance], before, health[instance].since)
    return Changes(
        audit_records=tuple(audit),
        engine_health=tuple(each for each in health.values() if each != known.get(each.engine_instance_id)),
        engine_samples=tuple(samples.values()),
    )


def _is_news(before: InstanceHealth, at: datetime, now: datetime) -> bool:
    """Whether a report of that time counts. An earlier report from a clock that was ahead does not keep it out."""
    return before.reported_at <= at or before.reported_at > now


def _audited(health: InstanceHealth, before: InstanceHealth | None, at: datetime) -> list[AuditRecord]:
    """The audit of a changed health; none for a first report, as there may be no such instance."""
    if before is None or _streamed(before) == _streamed(health):
        return []
    return [health_record(health, before, at)]


def _streamed(health: InstanceHealth) -> tuple[str, str, str]:
    """What the instance's own row has of it (``HEALTH_OF_INSTANCES`` in ``database/writes/instance_reports.py``)."""
    return (health.health, health.reason, health.version)


def is_of_health(event: Event) -> bool:
    """Whether an event is about the health of an instance."""
    match event.message:
        case HealthDue() | Observation(event=EngineHealth()):
            return True
        case _:
            return False


def _reported(
    instance: str, report: EngineHealth, partition: int, at: datetime, before: InstanceHealth | None, due_at: datetime
) -> InstanceHealth:
    reported = InstanceHealth(
        engine_instance_id=instance,
        partition=partition,
        health=report.health,
        reason=report.reason,
        message=report.message,
        version=_version_of(report, before),
        heartbeat_at=report.heartbeat_at,
        since=at,
        reported_at=at,
        due_at=due_at,
        queue=report.queue,
        certificate_expires_at=report.certificate_expires_at,
    )
    is_same = before is not None and _condition(before) == _condition(reported)
    return replace(reported, since=before.since) if before is not None and is_same else reported


def _condition(health: InstanceHealth) -> tuple[str, bool, bool]:
    """What ``since`` is about: it begins anew when one of these changes."""
    return health.health, health.is_working, health.is_out_of_reach


def _version_of(report: EngineHealth, before: InstanceHealth | None) -> str:
    """The version before, while the agent cannot see it: else a rollout would think that it has changed."""
    is_unseen = not report.version and report.reason in OUT_OF_REACH
    return before.version if is_unseen and before is not None else report.version


def _sample(instance: str, report: EngineHealth, applications: int, at: datetime) -> EngineSample:
    return EngineSample(
        engine_instance_id=instance,
        sampled_at=at,
        applications=applications,
        late=report.late,
        failed_syncs=report.failed_syncs,
        comparison_errors=report.comparison_errors,
        tenants=report.tenants,
        failing_tenants=report.failing_tenants,
        comparison_p95_ms=report.comparison_p95_ms,
        sync_p95_ms=report.sync_p95_ms,
    )


def _silent(known: InstanceHealth, now: datetime) -> InstanceHealth:
    """The health of an instance whose agent is silent; as before if a report has come meanwhile."""
    if known.due_at is None or known.due_at > now:
        return known
    message = f"its agent has told nothing since {known.reported_at.isoformat(timespec='seconds')}"
    return replace(known, health=Health.UNKNOWN.value, reason=SILENT, message=message, since=known.due_at, due_at=None)
