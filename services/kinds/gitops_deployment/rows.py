"""What is known of a GitOpsDeployment, and of what it became on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.kinds.shared.resource import Incarnation


@dataclass(frozen=True, slots=True)
class Deployment(Incarnation):
    """One incarnation of a GitOpsDeployment. It is on an engine as long as ``spec`` is not None."""

    spec: str | None
    """The spec that its manifest is compiled from."""
    pending_spec: str | None
    """A newer spec, well-formed, that waits for its environment or for room; None if ``spec`` is the newest."""
    environment: str | None
    """Name of the environment that the newest of the two names."""
    repository: str | None
    digest: str | None
    error: str
    """What is wrong with the newest spec as it was written."""
    pending_reason: str
    """Why the newest valid spec cannot be applied yet."""
    sync_sequence: int
    """Of the newest sync that was started for it."""
    environment_id: UUID | None = None
    """Identity of the environment that ``spec`` goes to, whoever bears its name by now; None: it names none."""
    due_at: datetime | None = None
    """When it has to be looked at again, though nothing happens."""
    engine_instance_id: str = ""
    """The engine instance that it is on, if that is another one than its tenant's; empty: its tenant's."""
    metadata: str = ""
    """What its kind declares of its metadata: JSON text, which ``projection.py`` reads; nothing if it is too long."""

    @property
    def problem(self) -> str:
        """What its user is told; empty if nothing is wrong."""
        return self.error or self.pending_reason

    @property
    def releasable(self) -> bool:
        """Its CR waits for us, and there is nothing left to wait for."""
        return self.present and self.deleting and self.finalizer and self.spec is None


@dataclass(frozen=True, slots=True)
class ForcedDeletion:
    """What a deployment may have left behind that its engine did not remove in time."""

    id: UUID
    """The deployment's."""
    tenant_id: UUID
    name: str
    environment: str
    """Where it deployed to, by its tenant's name for it; empty: the tenant's own namespace."""
    resources: str
    """Those seen last that nothing has taken over since: JSON, of each its group, kind, namespace and name."""
    total: int
    """How many there are, with those that were too many to be kept."""
    due_at: datetime
    """When it is forgotten."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What agents reported about what a deployment became on its engine."""

    deployment_id: UUID
    status: str
    resource_version: str
    observed_at: datetime
    applied_digest: str
    failed_digest: str
    failure: str
    failure_for_user: bool
    """It is about what the user wrote, who is told; otherwise it is for operators."""
    status_generation: int
