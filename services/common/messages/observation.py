"""Observations: what an agent did or saw. Written by agents, read by the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Health(StrEnum):
    """How an engine instance is."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    """It does its work, late or in part."""
    DOWN = "Down"
    """It does not."""
    UNKNOWN = "Unknown"
    """Nobody says anything: never an agent's judgement."""


BY_HAND = ("CertificateExpired", "CertificateExpiring")
"""Why an instance is degraded though it works, and no remedy helps: somebody has to renew a certificate."""


def is_working(health: str, reason: str) -> bool:
    """Whether an instance of this health does its work in time."""
    return health == Health.HEALTHY or (health == Health.DEGRADED and reason in BY_HAND)


@dataclass(frozen=True, slots=True)
class Applied:
    """The object is as desired."""

    digest: str
    drift_repaired: bool = False


@dataclass(frozen=True, slots=True)
class StatusReported:
    """The engine reports a status of the object; ``status`` is JSON text."""

    status: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Removed:
    """The object desired absent is gone; ``forced`` if its finalizers had to be removed."""

    forced: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The object cannot be made as desired."""

    digest: str
    permanent: bool
    message: str
    for_user: bool = False
    """The message is about what a user wrote, for that user; otherwise it is for operators."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The credentials in a sealed Secret were tried against what they are for."""

    digest: str
    """Of the manifest that asked for it."""
    reason: str
    """Outcome, a word of the API's conditions: Succeeded, InvalidCredentials, …"""
    message: str
    """For the user; holds nothing secret."""


@dataclass(frozen=True, slots=True)
class SyncMoved:
    """A sync that was asked for has begun, moved on or ended."""

    run: str
    """uid of the GitOpsDeploymentSyncRun."""
    phase: str
    """The engine's: Running, Terminating, Succeeded, Failed, Error."""
    message: str
    revision: str
    """Commit that is synced to; empty if not known yet."""
    started_at: str
    finished_at: str
    """RFC 3339, like ``started_at``; empty if it has not ended."""


@dataclass(frozen=True, slots=True)
class OrphansKept:
    """Orphans of an instance are so many that none is removed without an approval. Of no tenant, and of no object."""

    existing: int
    """Objects of ours that the instance has."""
    total: int
    """Those that are kept."""
    objects: tuple[str, ...]
    """Kind/name of these, sorted; as many as one approval takes."""
    finished: tuple[str, ...]
    """Digests of approvals of which no object is left."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """How an instance is by its agent's judgement, told again and again. Of no tenant, and of no object."""

    health: str
    """A :class:`Health` but ``Unknown``; text, because it crossed a wire."""
    reason: str
    """A word; empty if it is well."""
    message: str
    """For operators."""
    version: str
    """Of what it runs; empty if that is not to be seen."""
    heartbeat_at: datetime | None
    """When its heartbeat Application was compared last; None: it has none, or it never was."""
    queue: int = 0
    """Applications that waited to be compared at every measurement since the last report: what stands in the queue."""
    applications: int | None = None
    """Tenants'; None: an agent of before, which does not tell, nor what follows."""
    late: int = 0
    """Not compared in time: as many as would be if the tenant with most of them did like the others."""
    failed_syncs: int = 0
    """Applications whose last sync has failed."""
    comparison_errors: int = 0
    """Applications that could not be compared."""
    tenants: int = 0
    """Whose Applications they are; 0, too, from an agent of before."""
    failing_tenants: int = 0
    """Those with an Application that could not be compared, or whose last sync has failed."""
    comparison_p95_ms: int | None = None
    """Since they were compared last: of 95 in 100 not more; without those of the tenant with the longest, if there are
    others. None: there is none."""
    sync_p95_ms: int | None = None
    """For syncs that ended of late, likewise, but for those of the tenant with the longest; None: no other did."""
    certificate_expires_at: datetime | None = None
    """When the first of the certificates expires that it depends on; None: none is to be seen."""


class InstallationPhase(StrEnum):
    """How far a provisioner is with what an instance runs."""

    APPLYING = "Applying"
    """It tries again."""
    APPLIED = "Applied"
    FAILED = "Failed"
    """Only somebody else can help."""
    REMOVING = "Removing"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class EngineInstallation:
    """How far a provisioner is with an instance, told again and again. Of no tenant, and of no object."""

    phase: str
    """An :class:`InstallationPhase`; text, because it crossed a wire."""
    version: str
    """Of the manifests that are applied, or would be; empty: none are."""
    message: str
    """For operators; empty if the phase says all."""


ObservationEvent = (
    Applied | StatusReported | Removed | Failed | Checked | SyncMoved | OrphansKept | EngineHealth | EngineInstallation
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One event about one object on an engine instance."""

    workspace: str
    namespace: str
    engine_instance_id: str
    kind: str
    name: str
    observed_at: datetime
    event: ObservationEvent
