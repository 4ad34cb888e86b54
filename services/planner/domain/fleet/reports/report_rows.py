"""What agents and provisioners have reported of engine instances, as rows: of each instance the newest report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.common.messages import Health, is_working

SILENT = "AgentSilent"
"""Health reason of an instance of which no agent says anything any more: nobody knows how it is."""
OUT_OF_REACH = ("ApiFailing", "Closed", SILENT)
"""Health reasons of an instance on which nobody can do anything: its API server does not answer, its agent may not look
at it, or is silent."""
TENANT_INDUCED = (
    "ControllerNotReady",
    "RepoServerNotReady",
    "RepoServerFailing",
    "HeartbeatLost",
    "ReconciliationLate",
)
"""Health reasons of an instance that is down, maybe by what a tenant deploys, or its clusters and repositories do."""


@dataclass(frozen=True, slots=True)
class InstanceHealth:
    """A row of ``engine_health``: how an engine instance is, by its agent's reports."""

    engine_instance_id: str
    partition: int
    """Of ``gitops.observations``, where its agent's reports are: who plans that finds out when they cease."""
    health: str
    """A Health."""
    reason: str
    message: str
    version: str
    """Of what it runs; empty if that is not to be seen."""
    heartbeat_at: datetime | None
    """When its heartbeat Application was compared last."""
    since: datetime
    """When it became so: its health, whether it does its work, or whether anybody reaches it became another."""
    reported_at: datetime
    """When its agent last reported anything."""
    due_at: datetime | None
    """When nobody knows how it is, unless its agent tells something; None: it is so."""
    queue: int = 0
    """Applications that waited to be compared throughout the last report."""
    certificate_expires_at: datetime | None = None
    """When the first of the certificates expires that it depends on; None: its agent has reported none."""

    @property
    def is_down(self) -> bool:
        """Whether nothing new is deployed there: as its agent says, or as there is none that says anything."""
        return self.health == Health.DOWN.value or self.reason == SILENT

    @property
    def is_ill(self) -> bool:
        """Whether it is not well: down, or not doing its work in time."""
        return self.is_down or (self.health == Health.DEGRADED.value and not self.is_working)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether nobody can do anything there, either."""
        return self.reason in OUT_OF_REACH

    @property
    def is_working(self) -> bool:
        """Whether it does its work in time, by what its agent says."""
        return is_working(self.health, self.reason)


@dataclass(frozen=True, slots=True)
class Installation:
    """A row of ``engine_installations``: how far a provisioner is with what an instance runs, by its last report."""

    engine_instance_id: str
    partition: int
    """Of ``gitops.observations``, where reports of the instance are."""
    phase: str
    """An InstallationPhase."""
    version: str
    """Of the manifests; empty: none are applied."""
    message: str
    """For operators."""
    reported_at: datetime


@dataclass(frozen=True, slots=True)
class KeptOrphans:
    """A row of ``kept_orphans``: objects that no row desires, and that an agent keeps because they are so many."""

    engine_instance_id: str
    partition: int
    existing: int
    """Objects of ours that the instance has."""
    total: int
    """Those that are kept."""
    objects: str
    """JSON of the names of these, as kind/name, sorted: as many as one approval takes."""
    digest: str
    """Of all that an operator approves with it: an approval names it."""
    reported_at: datetime
