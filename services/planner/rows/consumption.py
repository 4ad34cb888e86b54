"""What the planner keeps of its input: sweeps that are still to be done or approved, and events of parked tenants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.planner.rows.tenants import Tenant, TenantName


@dataclass(frozen=True, slots=True)
class RefusedSweep:
    """A resync marker that would have removed an implausible share, and what it would have removed."""

    source: str
    kind: str
    partition: int
    epoch: int
    known: int
    """Resources that there were."""
    subjects: str
    """JSON of the ids of those that would have been removed, sorted."""
    digest: str
    """Of all that an operator approves with it: an approval names it."""
    refused_at: datetime


@dataclass(frozen=True, slots=True)
class SweepPart:
    """A part of what a complete list lacked, small enough to be removed in one transaction."""

    source: str
    kind: str
    partition: int
    epoch: int
    """Of the list: what has been seen since it began stays."""
    turn: int
    """The first part of each sweep comes before the second of any."""
    subjects: str
    """JSON of the ids of the resources."""
    trace_id: str
    seen_at: datetime
    """When the list was complete, by the clock of its watcher."""


@dataclass(frozen=True, slots=True)
class ParkedTenant:
    """A tenant that a rule of ours fails on, or that has no instance: nothing of it is planned while that is so."""

    tenant_id: UUID
    workspace: str
    namespace: str
    partition: int
    error: str
    """Type and place of the exception; or why it cannot be placed."""
    parked_at: datetime

    @property
    def full_name(self) -> TenantName:
        """Of the tenant."""
        return (self.workspace, self.namespace)

    @property
    def unplaced(self) -> Tenant:
        """The tenant, as far as it is known from this alone."""
        return Tenant(self.tenant_id, self.workspace, self.namespace, self.partition, "")


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event of a parked tenant, kept to be planned later."""

    tenant_id: UUID
    partition: int
    trace_id: str
    message: str
    """JSON."""
