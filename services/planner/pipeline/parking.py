"""Events of parked tenants as text, to be kept in the database until these can be planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import accumulate
from typing import Any
from uuid import UUID

import orjson
import structlog
from pydantic import TypeAdapter

from services.common.errors import Wait
from services.common.messages import (
    Applied,
    Checked,
    Command,
    Failed,
    LookAgain,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    StatusReported,
    SyncMoved,
)
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import Failure, count_failure
from services.kinds.shared.resource import Cause
from services.planner import SERVICE
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.events import Event, NamespaceReplaced, Unseen
from services.planner.domain.parked_statuses import LeftStatus, resolved_statuses
from services.planner.pipeline.coalesce import coalesce
from services.planner.rows.consumption import ParkedEvent, ParkedTenant
from services.planner.rows.tenants import Tenant

log = structlog.get_logger(__name__)

TYPES = {
    known.__name__: known
    for known in (
        Applied, Checked, Command, Failed, LookAgain, NamespaceReplaced, Observation, Removed, ResourceChanged,
        ResourceGone, ResyncCompleted, StatusReported, SyncMoved, Unseen,
    )
}  # fmt: skip
MOST_KEPT = 5000
"""Events of a parked tenant: about as many as one at all its quotas leaves. More would hold others up when they are
planned, in one transaction."""
MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Of their messages. The one that exceeds it is the last that is kept."""


def parked_tenant(tenant: Tenant, reason: Exception, now: datetime) -> ParkedTenant:
    """The row that says so: of a rule's exception without its text, which may hold a tenant's values."""
    error = str(reason) if isinstance(reason, Wait) else f"{type(reason).__name__} at {raised_at(reason)}"
    return ParkedTenant(tenant.id, tenant.workspace, tenant.namespace, tenant.partition, error, now)


def parked_event(tenant: UUID, event: Event) -> ParkedEvent:
    """An event as a row."""
    types = [type(event.message).__name__]
    if isinstance(event.message, Command | Observation):
        types.append(type(event.message.event).__name__)
    text = orjson.dumps({"types": types, "message": event.message}, default=list).decode()
    return ParkedEvent(tenant, event.partition, event.trace_id, text)


def kept_event(row: ParkedEvent) -> Event:
    """The event that ``row`` was made of."""
    kept = orjson.loads(row.message)
    message, (outer, *inner) = kept["message"], kept["types"]
    if inner:
        message["event"] = _adapter(inner[0]).validate_python(message["event"])
    return Event(_adapter(outer).validate_python(message), row.partition, row.trace_id)


def compacted(rows: Sequence[ParkedEvent]) -> tuple[Sequence[ParkedEvent], Sequence[ParkedEvent]]:
    """What of ``rows``, all that is kept of a tenant in its order, has to be kept; and what is beyond the limits.

    Beyond them is always the end, resync markers too: what a marker is about is there before it, or it would sweep what
    was given up. So once as much as that is kept which nothing replaces, all that comes later is given up.
    """
    most = _within_limits(rows)
    first = _without_replaced(rows[:most])
    if is_full(first):
        return first, rows[most:]
    needed = _without_replaced(rows)
    most = _within_limits(needed)
    return needed[:most], needed[most:]


def is_full(rows: Sequence[ParkedEvent]) -> bool:
    """Whether no more than ``rows`` is kept."""
    return len(rows) >= MOST_KEPT or sum(map(_bytes, rows)) >= MOST_KEPT_BYTES


def _within_limits(rows: Sequence[ParkedEvent]) -> int:
    """How many of ``rows``, from the first on, are as much as is kept."""
    totals = accumulate(map(_bytes, rows))
    return min(MOST_KEPT, 1 + sum(1 for total in totals if total < MOST_KEPT_BYTES))


def _bytes(row: ParkedEvent) -> int:
    return len(row.message.encode())


def _without_replaced(rows: Sequence[ParkedEvent]) -> Sequence[ParkedEvent]:
    """All of them if that fails: only room is saved."""
    try:
        return [parked_event(rows[0].tenant_id, event) for event in coalesce(kept_event(row) for row in rows)]
    except Exception as defect:
        count_failure(SERVICE, Failure.DEFECT, "coalesce")
        log.error("kept events are not coalesced", error=f"{type(defect).__name__} at {raised_at(defect)}")  # noqa: TRY400
        return rows


def resolved(parked: ParkedTenant, left: Sequence[LeftStatus], now: datetime) -> BatchChanges:
    """What becomes of statuses that still show it after all that was kept is planned. The tenant is read again."""
    if not left:
        return BatchChanges()
    shown = resolved_statuses(parked.unplaced, left, Cause(now, ""))
    return BatchChanges(other=Changes(workspace=shown.rows, workspace_gone=shown.gone), unread=(parked.full_name,))


@lru_cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(TYPES[name])
