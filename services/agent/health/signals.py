"""What is measured of an engine instance. What could not be measured is left out, and is no symptom."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one workload."""

    name: str
    wanted: int
    ready: int
    restarting: int = 0
    """Pods that keep restarting."""


@dataclass(frozen=True, slots=True)
class HeartbeatSignal:
    """The heartbeat Application."""

    silent_seconds: float
    """For how long the requested comparison has been awaited; 0 if it has happened."""
    reconciled_at: datetime | None
    error: str = ""
    """Why the heartbeat could not be compared; empty if it was."""
    lacks_answer: bool = False
    """The repo server did not answer this comparison."""


@dataclass(frozen=True, slots=True)
class CertificateSignal:
    """A certificate on which the instance depends."""

    name: str
    """The name of its owner."""
    expires_at: datetime
    remaining: timedelta
    """Time until its expiry; negative if it has expired."""
    lifetime: timedelta
    """Time from its beginning to its end."""


@dataclass(frozen=True, slots=True)
class ApplicationsSignal:
    """Tenants' Applications, without those that Argo CD should leave alone."""

    total: int = 0
    late: int = 0
    """Applications compared longer ago than Argo CD's interval, or never although they are not new."""
    late_of_others: int = 0
    """How many of all would be late if the tenant with most late Applications, whose cluster or git server may be the
    cause, did like the others; all of them, if there are no others."""
    late_share: float = 0.0
    """Share of late Applications: the average over tenants, so that each tenant weighs the same."""
    tenants: int = 0
    """Number of tenants."""
    late_tenants: int = 0
    """Tenants with a late Application."""
    waiting: int = 0
    """Applications never compared yet, or asked to be compared again."""
    waits_seconds: tuple[float, ...] = ()
    """Longest wait for a requested comparison, for each tenant that waits."""
    lacking_repo_server: int = 0
    """Applications that report that there is no repo server."""
    lacking_share: float = 0.0
    """Share of these Applications, as the average over tenants."""
    lacking_tenants: int = 0
    """Tenants with such an Application."""
    failed_syncs: int = 0
    """Applications whose last sync has failed."""
    comparison_errors: int = 0
    """Applications that could not be compared, or that Argo CD refuses to compare."""
    failing_tenants: int = 0
    """Tenants with an Application that could not be compared, or whose last sync has failed."""
    comparison_p95_ms: int | None = None
    """95th percentile of the time since the last comparison; None: there was none. The slowest tenant, whose cluster
    may not answer, is left out if there are others."""
    sync_p95_ms: int | None = None
    """95th percentile of syncs that ended within ``applications.SYNCED_OF_LATE``. The slowest tenant, whose hooks may
    take long, is left out; None if there is no other."""


@dataclass(frozen=True, slots=True)
class Signals:
    """One measurement of an instance."""

    api_error: str = ""
    api_seconds: float = 0.0
    """The API server's response time."""
    is_inaccessible: bool = False
    """The agent may not read the instance's namespace."""
    refusal: str = ""
    """Why nothing new is deployed."""
    workloads: tuple[Workload, ...] = ()
    is_in_service: bool = True
    """Tenants may be on the instance."""
    has_heartbeat: bool = False
    """There should be a heartbeat Application, whether or not it can be read."""
    heartbeat: HeartbeatSignal | None = None
    """None: there is no heartbeat Application, or it could not be read."""
    applications: ApplicationsSignal = field(default_factory=ApplicationsSignal)
    version: str = ""
    """Version of the running Argo CD; empty if unknown."""
    wanted_version: str = ""
    """Version that the instance was ordered with; empty: others manage its version."""
    certificates: tuple[CertificateSignal, ...] = ()
