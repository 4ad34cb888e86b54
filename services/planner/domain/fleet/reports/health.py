"""How engine instances are, by what their agents tell and when they told it last. Pure.

An agent tells it again and again. Of an instance of which nothing is heard for longer than operators lay down nobody
knows how it is: that is due at a time, which is in its row. A report is of the brokers' time: one that is read again
after later ones changes nothing, and of two of the same time the later in the log counts. How long nothing has been
heard is measured by the planner's clock: brokers whose clock is behind make no instance silent.

Since when an instance is as it is begins anew when it gets out of reach, and when it can be reached again, though it
is down all the time: what was wrong in it meanwhile nobody could see or mend.

Each change of what is streamed of that (health, reason and version) is a row of the audit. A report that repeats these
three is none, though its message may have other numbers. A reason that flaps has as many rows there as its instance's
row has changes: an agent reports a judgement when it is another, and else each minute, and of several reports in a
batch only the newest is left (``pipeline/coalesce.py``).
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
    """What becomes of reports and of what is due, in their order.

    Args:
        events: those of a batch that are about an instance.
        known: how these instances were before, by their ids.
        now: when that happens which tells no time.
        patience: how long an agent may be silent.
    """
    health, samples = dict(known), dict[tuple[str, datetime], EngineSample]()
    audit: list[AuditRecord] = []
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, event=EngineHealth() as told, observed_at=at):
                before = health.get(instance)
                if before is None or _is_news(before, at, now):
                    health[instance] = _reported(instance, told, event.partition, at, before, max(at, now) + patience)
                    audit += _audited(health[instance], before, at)
                    if told.applications is not None:
                        samples[instance, at] = _sample(instance, told, told.applications, at)
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
    """Whether a report of that time is; what was told by a clock that was ahead does not keep others from counting."""
    return before.reported_at <= at or before.reported_at > now


def _audited(health: InstanceHealth, before: InstanceHealth | None, at: datetime) -> list[AuditRecord]:
    """What has changed of an instance; nothing if this is the first that is told of it, as there may be none such."""
    if before is None or _streamed(before) == _streamed(health):
        return []
    return [health_record(health, before, at)]


def _streamed(health: InstanceHealth) -> tuple[str, str, str]:
    """What the row of the instance has of it (``HEALTH_OF_INSTANCES`` in ``database/writes/instance_reports.py``)."""
    return (health.health, health.reason, health.version)


def is_of_health(event: Event) -> bool:
    """Whether an event is about how an instance is."""
    match event.message:
        case HealthDue() | Observation(event=EngineHealth()):
            return True
        case _:
            return False


def _reported(
    instance: str, told: EngineHealth, partition: int, at: datetime, before: InstanceHealth | None, due_at: datetime
) -> InstanceHealth:
    reported = InstanceHealth(
        engine_instance_id=instance,
        partition=partition,
        health=told.health,
        reason=told.reason,
        message=told.message,
        version=_version_of(told, before),
        heartbeat_at=told.heartbeat_at,
        since=at,
        reported_at=at,
        due_at=due_at,
        queue=told.queue,
        certificate_expires_at=told.certificate_expires_at,
    )
    is_same = before is not None and _condition(before) == _condition(reported)
    return replace(reported, since=before.since) if before is not None and is_same else reported


def _condition(health: InstanceHealth) -> tuple[str, bool, bool]:
    """What an instance is ``since`` a time."""
    return health.health, health.is_working, health.is_out_of_reach


def _version_of(told: EngineHealth, before: InstanceHealth | None) -> str:
    """As told last, while its agent cannot see it: a rollout would take the instance for one of another version."""
    is_unseen = not told.version and told.reason in OUT_OF_REACH
    return before.version if is_unseen and before is not None else told.version


def _sample(instance: str, told: EngineHealth, applications: int, at: datetime) -> EngineSample:
    return EngineSample(
        engine_instance_id=instance,
        sampled_at=at,
        applications=applications,
        late=told.late,
        failed_syncs=told.failed_syncs,
        comparison_errors=told.comparison_errors,
        tenants=told.tenants,
        failing_tenants=told.failing_tenants,
        comparison_p95_ms=told.comparison_p95_ms,
        sync_p95_ms=told.sync_p95_ms,
    )


def _silent(known: InstanceHealth, now: datetime) -> InstanceHealth:
    """Unless it has told something meanwhile."""
    if known.due_at is None or known.due_at > now:
        return known
    message = f"its agent has told nothing since {known.reported_at.isoformat(timespec='seconds')}"
    return replace(known, health=Health.UNKNOWN.value, reason=SILENT, message=message, since=known.due_at, due_at=None)
