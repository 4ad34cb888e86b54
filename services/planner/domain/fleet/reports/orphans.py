"""Objects on an instance that no row desires: operators see them, and approve that exactly these are removed. Pure.

An approval becomes a row of the instance, which names the objects. The agent removes those that no row desires by
then and reports when none is left; then the row is deleted. It is of no tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import orjson

from services.common.json_values import canonical, digest
from services.common.messages import (
    ORPHAN_REMOVAL,
    REMEDY,
    Command,
    EngineHealth,
    EngineInstallation,
    Observation,
    OrphansApproved,
    OrphansKept,
)
from services.kinds.shared.resource import Cause
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event, HealthDue
from services.planner.domain.fleet.agent_orders import agent_order
from services.planner.domain.fleet.reports.report_rows import KeptOrphans
from services.planner.rows.compiled import EngineKey, EngineRow


def decide_orphans(events: Iterable[Event], known: Mapping[str, KeptOrphans], now: datetime) -> Changes:
    """Apply reports and approvals, in their order.

    Args:
        events: those of a batch that are about an instance.
        known: the orphans of these instances before, by their ids.
        now: time of events that carry none.
    """
    orphans: dict[str, KeptOrphans | None] = dict(known)
    rows: dict[EngineKey, EngineRow | None] = {}
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, event=OrphansKept() as report, observed_at=at):
                orphans[instance] = _reported(instance, report, event.partition, at)
                rows |= {approval_key(instance, each): None for each in report.finished}
            case Command(event=OrphansApproved(engine_instance_id=instance, digest=approved)):
                shown = orphans.get(instance)
                if shown is not None and shown.digest == approved:
                    rows[approval_key(instance, approved)] = _approval(shown, event.cause(now))
    changed = {instance: each for instance, each in orphans.items() if each != known.get(instance)}
    return Changes(
        kept_orphans=tuple(each for each in changed.values() if each is not None),
        kept_orphans_gone=tuple(instance for instance, each in changed.items() if each is None),
        engine=tuple(row for row in rows.values() if row is not None),
        engine_gone=tuple(key for key, row in rows.items() if row is None),
    )


def instance_of(event: Event) -> str:
    """The instance that an event is about as a whole; empty if it is about one of its objects, a tenant, or a list."""
    match event.message:
        case Observation(engine_instance_id=instance, event=OrphansKept() | EngineHealth() | EngineInstallation()):
            return instance
        case Observation(engine_instance_id=instance, kind=kind) if kind == REMEDY:
            return instance
        case Command(event=OrphansApproved(engine_instance_id=instance)) | HealthDue(engine_instance_id=instance):
            return instance
        case _:
            return ""


def _reported(instance: str, report: OrphansKept, partition: int, at: datetime) -> KeptOrphans | None:
    if not report.objects:
        return None
    objects = canonical(sorted(report.objects))
    return KeptOrphans(instance, partition, report.existing, report.total, objects, digest(f"{instance}/{objects}"), at)


def _approval(orphans: KeptOrphans, cause: Cause) -> EngineRow:
    key = approval_key(orphans.engine_instance_id, orphans.digest)
    return agent_order(key, {"objects": orjson.loads(orphans.objects)}, cause)


def approval_key(instance: str, approved: str) -> EngineKey:
    """Key of the row that tells an instance's agent to remove what was approved, the list of this digest."""
    return EngineKey(instance, ORPHAN_REMOVAL, "", approved, "")
