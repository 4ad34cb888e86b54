"""What the planner knows besides the resources themselves: tenants, engine instances and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Action = Literal["create", "update", "delete"]
OperationState = Literal["Waiting", "Completed", "Failed"]


@dataclass(frozen=True, slots=True)
class Instance:
    """An engine instance."""

    id: str
    namespace: str
    accepting: bool
    engine: str = "argocd"
    """Which engine it runs."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of a workspace."""

    id: UUID
    workspace: str
    namespace: str
    partition: int
    engine_instance_id: str
    """Empty: not placed yet."""
    dormant: bool = False
    """There may be rows of it that are not loaded with it: nothing follows from them."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An audit row: one change of one resource."""

    id: UUID
    deployment_id: UUID
    workspace: str
    namespace: str
    kind: str
    name: str
    generation: int
    action: Action
    actor: str
    state: OperationState
    message: str
    trace_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OperationMoved:
    """What became of an operation that is still open."""

    id: UUID
    state: OperationState
    message: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ParkedTenant:
    """A tenant on which a rule of ours failed: nothing of it is planned until that is mended."""

    tenant_id: UUID
    workspace: str
    namespace: str
    partition: int
    error: str
    """Type and place of the exception."""
    parked_at: datetime


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event of a parked tenant, kept to be planned later."""

    tenant_id: UUID
    partition: int
    trace_id: str
    message: str
    """JSON."""
