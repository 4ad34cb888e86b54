"""What a plan is made from, and what it wants written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from services.planner.rows.compiled import (
    EngineAbsence,
    EngineKey,
    EngineRow,
    Holding,
    HoldingKey,
    WorkspaceKey,
    WorkspaceRow,
)
from services.planner.rows.domain import (
    Check,
    Deployment,
    Instance,
    Observed,
    Operation,
    OperationMoved,
    Resource,
    SyncRun,
    Tenant,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of its allowance a tenant takes up."""

    repositories: Mapping[str | None, int] = field(default_factory=dict)
    """Deployments by repository; those without an Application under None."""
    waiting: int = 0
    """Deployments that wait for their first Application with a spec on offer."""
    deployment_bytes: int = 0
    """Of the specs of deployments, UTF-8."""
    resource_bytes: int = 0
    """Of the specs in force of all other resources, sealed Secrets among them, and of what has to be removed."""

    @property
    def deployments(self) -> int:
        """How many have an Application."""
        return sum(count for repository, count in self.repositories.items() if repository is not None)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A CR was seen again and nothing about it had changed."""

    id: UUID
    resource_version: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SweepScope:
    """What a resync marker speaks of."""

    source: str
    kind: str
    partition: int
    epoch: int


@dataclass(frozen=True)
class State:
    """All that a plan may look at, as it is in the database."""

    instances: Mapping[str, Instance] = field(default_factory=dict)
    tenants: Mapping[UUID, Tenant] = field(default_factory=dict)
    holdings: Mapping[UUID, Mapping[HoldingKey, Holding]] = field(default_factory=dict)
    """What each tenant has on its engine besides Applications."""
    usage: Mapping[UUID, Usage] = field(default_factory=dict)
    resources: Mapping[UUID, Resource] = field(default_factory=dict)
    """All of each tenant; Secrets only of tenants of which a resource is concerned."""
    checks: Mapping[UUID, Check] = field(default_factory=dict)
    sync_runs: Mapping[UUID, SyncRun] = field(default_factory=dict)
    deployments: Mapping[UUID, Deployment] = field(default_factory=dict)
    observed: Mapping[UUID, Observed] = field(default_factory=dict)
    statuses: Mapping[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)
    sweeps: Mapping[SweepScope, int] = field(default_factory=dict)
    """How many CRs exist in the scope of each resync marker; those not seen in time are among ``deployments``."""


@dataclass(frozen=True)
class Changes:
    """What a plan wants written, each list in the order in which it shall reach the write-ahead log."""

    tenants: tuple[Tenant, ...] = ()
    tenants_gone: tuple[UUID, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    deployments_gone: tuple[UUID, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    observed: tuple[Observed, ...] = ()
    observed_gone: tuple[UUID, ...] = ()
    resources: tuple[Resource, ...] = ()
    resources_gone: tuple[UUID, ...] = ()
    resource_sightings: tuple[Sighting, ...] = ()
    checks: tuple[Check, ...] = ()
    sync_runs: tuple[SyncRun, ...] = ()
    operations: tuple[Operation, ...] = ()
    operations_moved: tuple[OperationMoved, ...] = ()
    engine: tuple[EngineRow, ...] = ()
    engine_absent: tuple[EngineAbsence, ...] = ()
    """Rows that stay as they are but for this: their objects shall no longer exist."""
    engine_departing: tuple[EngineRow, ...] = ()
    """The same for rows that are written anew with it, after Applications: those cannot be removed without them."""
    engine_gone: tuple[EngineKey, ...] = ()
    oversized: tuple[EngineKey, ...] = ()
    """Rows that were not written, because nobody could take what they would be."""
    workspace: tuple[WorkspaceRow, ...] = ()
    workspace_gone: tuple[WorkspaceKey, ...] = ()
    refused_sweeps: tuple[SweepScope, ...] = ()
    """Markers that would have removed an implausible share; nothing was."""
