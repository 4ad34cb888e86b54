"""What agents keep though no row desires it: told to operators, who approve by name that exactly that is removed.

An approval becomes a row of the instance, which names the objects. The agent removes those that no row desires by
then, tells when none is left, and the row goes. It is of no tenant.
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
    """What becomes of reports and approvals, in their order.

    Args:
        events: those of a batch that are about an instance.
        known: what was kept of these instances before, by their ids.
        now: when that happens which tells no time.
    """
    kept: dict[str, KeptOrphans | None] = dict(known)
    rows: dict[EngineKey, EngineRow | None] = {}
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, event=OrphansKept() as told, observed_at=at):
                kept[instance] = _reported(instance, told, event.partition, at)
                rows |= {approval_key(instance, each): None for each in told.finished}
            case Command(event=OrphansApproved(engine_instance_id=instance, digest=approved)):
                shown = kept.get(instance)
                if shown is not None and shown.digest == approved:
                    rows[approval_key(instance, approved)] = _approval(shown, event.cause(now))
    told_of = {instance: each for instance, each in kept.items() if each != known.get(instance)}
    return Changes(
        kept_orphans=tuple(each for each in told_of.values() if each is not None),
        kept_orphans_gone=tuple(instance for instance, each in told_of.items() if each is None),
        engine=tuple(row for row in rows.values() if row is not None),
        engine_gone=tuple(key for key, row in rows.items() if row is None),
    )


def instance_of(event: Event) -> str:
    """The instance that an event is about, if that is no object of it; empty if it is about a tenant, or a list."""
    match event.message:
        case Observation(engine_instance_id=instance, event=OrphansKept() | EngineHealth() | EngineInstallation()):
            return instance
        case Observation(engine_instance_id=instance, kind=kind) if kind == REMEDY:
            return instance
        case Command(event=OrphansApproved(engine_instance_id=instance)) | HealthDue(engine_instance_id=instance):
            return instance
        case _:
            return ""


def _reported(instance: str, told: OrphansKept, partition: int, at: datetime) -> KeptOrphans | None:
    if not told.objects:
        return None
    objects = canonical(sorted(told.objects))
    return KeptOrphans(instance, partition, told.existing, told.total, objects, digest(f"{instance}/{objects}"), at)


def _approval(kept: KeptOrphans, cause: Cause) -> EngineRow:
    key = approval_key(kept.engine_instance_id, kept.digest)
    return agent_order(key, {"objects": orjson.loads(kept.objects)}, cause)


def approval_key(instance: str, approved: str) -> EngineKey:
    """Key of the row that tells an instance's agent to remove what was approved, the list of this digest."""
    return EngineKey(instance, ORPHAN_REMOVAL, "", approved, "")
