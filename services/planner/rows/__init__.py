"""The planner's own rows as values; those of the kinds are in ``services.kinds``."""

from services.planner.rows.compiled import (
    Desired,
    EngineAbsence,
    EngineKey,
    EngineRow,
    HeldObject,
    ObjectKey,
    Role,
    StatusKey,
    StoredStatus,
    WorkspaceKey,
    WorkspaceRow,
)
from services.planner.rows.domain import (
    Action,
    Instance,
    Operation,
    OperationMoved,
    OperationState,
    ParkedEvent,
    ParkedTenant,
    Tenant,
)

__all__ = [
    "Action",
    "Desired",
    "EngineAbsence",
    "EngineKey",
    "EngineRow",
    "HeldObject",
    "Instance",
    "ObjectKey",
    "Operation",
    "OperationMoved",
    "OperationState",
    "ParkedEvent",
    "ParkedTenant",
    "Role",
    "StatusKey",
    "StoredStatus",
    "Tenant",
    "WorkspaceKey",
    "WorkspaceRow",
]
