"""What is measured of an engine instance, as values; what was not to be seen is left out, and speaks for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one kind."""

    name: str
    wanted: int
    ready: int
    restarting: int = 0
    """Those that do not stay up."""


@dataclass(frozen=True, slots=True)
class HeartbeatSignal:
    """The heartbeat Application."""

    silent_seconds: float
    """Since it was asked for the comparison that has not come yet; 0 if all have."""
    reconciled_at: datetime | None
    error: str = ""
    """Why it could not be compared; empty if it was."""
    lacks_answer: bool = False
    """Of the repo server, to this comparison."""


@dataclass(frozen=True, slots=True)
class CertificateSignal:
    """A certificate on which the instance depends."""

    name: str
    """Whose it is."""
    expires_at: datetime
    remaining: timedelta
    """Until then; negative: since then."""
    lifetime: timedelta
    """From its beginning to its end."""


@dataclass(frozen=True, slots=True)
class ApplicationsSignal:
    """Tenants' Applications, but those that Argo CD is to leave alone."""

    total: int = 0
    late: int = 0
    """Compared longer ago than Argo CD compares by itself, or never though they are not new."""
    late_of_others: int = 0
    """As many of the total as would be if the tenant with most of them, whose cluster or git server may not answer, did
    like the others; all of them, if there are no others."""
    late_share: float = 0.0
    """Of the Applications of each tenant: the average of all tenants, so that none of them weighs more than another."""
    tenants: int = 0
    """Whose they are."""
    late_tenants: int = 0
    """Those of which an Application is late."""
    waiting: int = 0
    """Never compared yet, or asked to be compared again."""
    waits_seconds: tuple[float, ...] = ()
    """For comparisons that were asked for: the longest of each tenant that waits for one."""
    lacking_repo_server: int = 0
    """Those that say that there is no repo server."""
    lacking_share: float = 0.0
    """Of the Applications of each tenant, likewise the average of all tenants."""
    lacking_tenants: int = 0
    """Those of which an Application says so."""
    failed_syncs: int = 0
    """Those whose last sync has failed."""
    comparison_errors: int = 0
    """Those that could not be compared, or that Argo CD refuses to compare."""
    failing_tenants: int = 0
    """Of whose at least one could not be compared, or has failed in its last sync."""
    comparison_p95_ms: int | None = None
    """Since they were compared last; None: none ever was. Those of the tenant with the longest, whose cluster may not
    answer, are left out if there are others."""
    sync_p95_ms: int | None = None
    """Of syncs that have ended within ``applications.SYNCED_OF_LATE``, but for those of the tenant with the longest,
    which hooks of its own may prolong; None: no other has."""


@dataclass(frozen=True, slots=True)
class Signals:
    """One measurement of an instance."""

    api_error: str = ""
    api_seconds: float = 0.0
    """How long the API server took to answer."""
    is_inaccessible: bool = False
    """The agent may not look at it."""
    refusal: str = ""
    """Why nothing new is deployed by it."""
    workloads: tuple[Workload, ...] = ()
    is_in_service: bool = True
    """Tenants may be on it."""
    has_heartbeat: bool = False
    """There is to be a heartbeat Application, whether it can be read or not."""
    heartbeat: HeartbeatSignal | None = None
    """None: there is no such Application, or it could not be read."""
    applications: ApplicationsSignal = field(default_factory=ApplicationsSignal)
    version: str = ""
    """Of what it runs; empty if that is not to be seen."""
    wanted_version: str = ""
    """With which it was ordered; empty: somebody else looks after that."""
    certificates: tuple[CertificateSignal, ...] = ()
