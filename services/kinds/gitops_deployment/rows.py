"""The rows of a GitOpsDeployment, and of its object on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.kinds.shared.resource import Incarnation


@dataclass(frozen=True, slots=True)
class Deployment(Incarnation):
    """One incarnation of a GitOpsDeployment. It is on an engine while ``spec`` is not None."""

    spec: str | None
    """The spec from which its manifest is compiled."""
    pending_spec: str | None
    """A newer valid spec that waits for its environment or for room; None if ``spec`` is the newest."""
    environment: str | None
    """Name of the environment in the newest of these specs."""
    repository: str | None
    digest: str | None
    error: str
    """The error of the newest spec."""
    pending_reason: str
    """Why the newest valid spec cannot be applied yet."""
    sync_sequence: int
    """Sequence of the newest sync that was started."""
    environment_id: UUID | None = None
    """Identity of the environment that ``spec`` deploys to, whoever has its name by now; None: it names none."""
    due_at: datetime | None = None
    """When to look at it again without an event."""
    engine_instance_id: str = ""
    """Its engine instance, if that is not its tenant's; empty: its tenant's."""
    metadata: str = ""
    """Its declared metadata as JSON text, which ``projection.py`` reads; empty if it is too long."""

    @property
    def problem(self) -> str:
        """The problem that its user sees; empty if there is none."""
        return self.error or self.pending_reason

    @property
    def releasable(self) -> bool:
        """Whether its resource waits for us, and nothing is left to wait for."""
        return self.present and self.deleting and self.finalizer and self.spec is None


@dataclass(frozen=True, slots=True)
class ForcedDeletion:
    """What a deployment may have left behind, because its engine did not remove it in time."""

    id: UUID
    """Id of the deployment."""
    tenant_id: UUID
    name: str
    environment: str
    """Where it deployed to, by the tenant's name for the environment; empty: the tenant's own namespace."""
    resources: str
    """The last seen resources that nothing has reclaimed since: JSON of group, kind, namespace and name."""
    total: int
    """Number of resources, with those that were too many to be stored."""
    due_at: datetime
    """When it is forgotten."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What agents have reported about a deployment's object on its engine."""

    deployment_id: UUID
    status: str
    resource_version: str
    observed_at: datetime
    applied_digest: str
    failed_digest: str
    failure: str
    failure_for_user: bool
    """Whether the failure concerns the user's input, and is shown to the user; otherwise it is for operators."""
    status_generation: int
