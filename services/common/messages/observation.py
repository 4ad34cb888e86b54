"""Observations: what an agent did or saw. Agents write them, the planner reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Health(StrEnum):
    """The health of an engine instance."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    """It works, but late or only in part."""
    DOWN = "Down"
    """It does not work."""
    UNKNOWN = "Unknown"
    """There is no report. An agent never reports this."""


BY_HAND = ("CertificateExpired", "CertificateExpiring")
"""Reasons for which a working instance is degraded, and that no remedy cures: somebody has to renew a certificate."""


def is_working(health: str, reason: str) -> bool:
    """Whether an instance with this health works in time."""
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
    """The object was to be absent, and is gone; ``forced`` if its finalizers had to be removed."""

    forced: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The object cannot become as desired."""

    digest: str
    permanent: bool
    message: str
    for_user: bool = False
    """The message is about a user's input, and for that user; otherwise it is for operators."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The credentials in a sealed Secret were tried on their server."""

    digest: str
    """Digest of the manifest that requested it."""
    reason: str
    """The outcome, a reason of the API's conditions: Succeeded, InvalidCredentials, …"""
    message: str
    """A text for the user, without secrets."""


@dataclass(frozen=True, slots=True)
class SyncMoved:
    """A requested sync has begun, progressed or ended."""

    run: str
    """uid of the GitOpsDeploymentSyncRun."""
    phase: str
    """The engine's: Running, Terminating, Succeeded, Failed, Error."""
    message: str
    revision: str
    """Commit of the sync; empty if not known yet."""
    started_at: str
    finished_at: str
    """RFC 3339, like ``started_at``; empty if it has not ended."""


@dataclass(frozen=True, slots=True)
class OrphansKept:
    """So many orphans of an instance exist that none is removed without an approval. About no tenant, and no object."""

    existing: int
    """Number of our objects on the instance."""
    total: int
    """Number of kept orphans."""
    objects: tuple[str, ...]
    """Kind/name of these, sorted, as many as one approval covers."""
    finished: tuple[str, ...]
    """Digests of approvals whose objects are all gone."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """The health of an instance as its agent judges it, reported regularly. About no tenant, and no object."""

    health: str
    """A :class:`Health` other than ``Unknown``. It is text because it comes from outside."""
    reason: str
    """One word; empty if the instance is healthy."""
    message: str
    """A text for operators."""
    version: str
    """Version of the running engine; empty if unknown."""
    heartbeat_at: datetime | None
    """When its heartbeat Application was last compared; None: it has none, or was never compared."""
    queue: int = 0
    """The fewest Applications that waited for a comparison at any measurement since the last report."""
    applications: int | None = None
    """Number of tenants' Applications; None: an older agent, which does not send this or the following counts."""
    late: int = 0
    """Late Applications: as many as would be if the tenant with most of them did like the others."""
    failed_syncs: int = 0
    """Applications whose last sync has failed."""
    comparison_errors: int = 0
    """Applications that could not be compared."""
    tenants: int = 0
    """Number of tenants with Applications; 0 also from an older agent."""
    failing_tenants: int = 0
    """Tenants with an Application that could not be compared, or whose last sync has failed."""
    comparison_p95_ms: int | None = None
    """95th percentile of the time since the last comparison, without the slowest tenant's if there are others. None:
    unknown."""
    sync_p95_ms: int | None = None
    """95th percentile of the duration of recent syncs, without the slowest tenant's. None: there was no other."""
    certificate_expires_at: datetime | None = None
    """When the first of its certificates expires; None: none can be seen."""


class InstallationPhase(StrEnum):
    """A provisioner's progress with an instance."""

    APPLYING = "Applying"
    """It is tried again."""
    APPLIED = "Applied"
    FAILED = "Failed"
    """Somebody else has to help."""
    REMOVING = "Removing"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class EngineInstallation:
    """A provisioner's progress with an instance, reported regularly. About no tenant, and no object."""

    phase: str
    """An :class:`InstallationPhase`. It is text because it comes from outside."""
    version: str
    """Version of the applied manifests; empty: there are none."""
    message: str
    """A text for operators; empty if the phase is enough."""


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
