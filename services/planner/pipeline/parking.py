"""Events of parked tenants as text. The database keeps them until they can be planned."""

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
"""Events that are kept of a parked tenant. A tenant at all its quotas leaves about as many. One transaction plans all
of them, and other tenants wait meanwhile."""
MOST_KEPT_BYTES = 64 * 1024 * 1024
"""The size of the messages that are kept of a parked tenant. The event that exceeds it is the last one that is kept."""


def parked_tenant(tenant: Tenant, reason: Exception, now: datetime) -> ParkedTenant:
    """The row of a parked tenant. Of a rule's exception it has no text, which may hold a tenant's values."""
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
    """The event that ``row`` was made from."""
    kept = orjson.loads(row.message)
    message, (outer, *inner) = kept["message"], kept["types"]
    if inner:
        message["event"] = _adapter(inner[0]).validate_python(message["event"])
    return Event(_adapter(outer).validate_python(message), row.partition, row.trace_id)


def compacted(rows: Sequence[ParkedEvent]) -> tuple[Sequence[ParkedEvent], Sequence[ParkedEvent]]:
    """The rows that have to be kept of ``rows``, which are all of a tenant in order; and those beyond the limits.

    Beyond the limits are always the last rows, also resync markers: a marker sweeps what is not in the log before it,
    so it would sweep the resources of rows that were given up. Once the limits are reached by rows that nothing
    replaces, all later rows are beyond them.
    """
    most = _within_limits(rows)
    first = _without_replaced(rows[:most])
    if is_full(first):
        return first, rows[most:]
    needed = _without_replaced(rows)
    most = _within_limits(needed)
    return needed[:most], needed[most:]


def is_full(rows: Sequence[ParkedEvent]) -> bool:
    """Whether ``rows`` reach the limits."""
    return len(rows) >= MOST_KEPT or sum(map(_bytes, rows)) >= MOST_KEPT_BYTES


def _within_limits(rows: Sequence[ParkedEvent]) -> int:
    """How many of ``rows``, from the first on, are within the limits."""
    totals = accumulate(map(_bytes, rows))
    return min(MOST_KEPT, 1 + sum(1 for total in totals if total < MOST_KEPT_BYTES))


def _bytes(row: ParkedEvent) -> int:
    return len(row.message.encode())


def _without_replaced(rows: Sequence[ParkedEvent]) -> Sequence[ParkedEvent]:
    """``rows`` without events that later ones replace; all of them if that fails, as it only saves room."""
    try:
        return [parked_event(rows[0].tenant_id, event) for event in coalesce(kept_event(row) for row in rows)]
    except Exception as defect:
        count_failure(SERVICE, Failure.DEFECT, "coalesce")
        log.error("kept events are not coalesced", error=f"{type(defect).__name__} at {raised_at(defect)}")  # noqa: TRY400
        return rows


def resolved(parked: ParkedTenant, left: Sequence[LeftStatus], now: datetime) -> BatchChanges:
    """Changes of statuses that still say that the tenant is parked, once its events are planned."""
    if not left:
        return BatchChanges()
    shown = resolved_statuses(parked.unplaced, left, Cause(now, ""))
    return BatchChanges(other=Changes(workspace=shown.rows, workspace_gone=shown.gone), unread=(parked.full_name,))


@lru_cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(TYPES[name])
