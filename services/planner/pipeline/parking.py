"""Events of parked tenants as text, to be kept in the database until a rule that failed has been mended."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from pydantic import TypeAdapter

from services.common.messages import (
    Applied,
    Checked,
    Command,
    Failed,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    StatusReported,
    SyncMoved,
)
from services.kinds.shared.rows import Cause
from services.planner.domain.changes import BatchChanges, Changes, TenantChanges
from services.planner.domain.events import Event, Unseen
from services.planner.domain.parked_statuses import LeftStatus, resolved_statuses
from services.planner.rows import ParkedEvent, ParkedTenant, Tenant

TYPES = {
    known.__name__: known
    for known in (
        Applied, Checked, Command, Failed, Observation, Removed, ResourceChanged, ResourceGone,
        ResyncCompleted, StatusReported, SyncMoved, Unseen,
    )
}  # fmt: skip
DEEPEST = 8


def parked_tenant(tenant: Tenant, defect: Exception, now: datetime) -> ParkedTenant:
    """The row that says so."""
    error = f"{type(defect).__name__} at {raised_at(defect)}"
    return ParkedTenant(tenant.id, tenant.workspace, tenant.namespace, tenant.partition, error, now)


def raised_at(defect: BaseException) -> str:
    """Where it was raised: the deepest calls, the last first. Not its text, which may hold a tenant's values."""
    frames = traceback.extract_tb(defect.__traceback__)[-DEEPEST:]
    return " < ".join(f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}" for frame in reversed(frames))


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


def resolved(parked: ParkedTenant, left: Sequence[LeftStatus], now: datetime) -> BatchChanges:
    """What becomes of statuses that still show it after all that was kept is planned. The tenant is read again."""
    if not left:
        return BatchChanges()
    tenant = Tenant(parked.tenant_id, parked.workspace, parked.namespace, parked.partition, "")
    shown = resolved_statuses(tenant, left, Cause(now, ""))
    written = Changes(workspace=shown.rows, workspace_gone=shown.gone)
    return BatchChanges((TenantChanges(parked.tenant_id, written, None),))


@lru_cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(TYPES[name])
