"""The planner's rows as values, and what a plan reads and writes. ``load`` reads them, ``persist`` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

Action = Literal["create", "update", "delete"]
OperationState = Literal["Waiting", "Completed", "Failed"]


@dataclass(frozen=True, slots=True)
class Cause:
    """The event behind a change: when it happened and which trace it belongs to."""

    at: datetime
    trace_id: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An engine instance."""

    id: str
    namespace: str
    accepting: bool


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of a workspace."""

    id: UUID
    workspace: str
    namespace: str
    partition: int
    engine_instance_id: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """One incarnation (uid) of a GitOpsDeployment. It has an Application as long as ``spec`` is not None."""

    id: UUID
    tenant_id: UUID
    source: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    present: bool
    deleting: bool
    finalizer: bool
    spec: str | None
    repository: str | None
    digest: str | None
    error: str
    seen_at: datetime
    trace_id: str

    @property
    def wanted(self) -> bool:
        """Its Application shall exist."""
        return self.present and not self.deleting

    @property
    def releasable(self) -> bool:
        """Its CR waits for us, and there is nothing left to wait for."""
        return self.present and self.deleting and self.finalizer and self.spec is None


@dataclass(frozen=True, slots=True)
class Observed:
    """What agents reported about a deployment's Application."""

    deployment_id: UUID
    status: str
    resource_version: str
    observed_at: datetime
    applied_digest: str
    failed_digest: str
    failure: str
    status_generation: int


@dataclass(frozen=True, slots=True)
class Resource:
    """One incarnation (uid) of a CR other than a GitOpsDeployment, or of a Secret that such CRs name."""

    id: UUID
    tenant_id: UUID
    kind: str
    source: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    present: bool
    deleting: bool
    finalizer: bool
    spec: str
    """JSON text as the user wrote it; of a Secret its type and its sealed content."""
    omitted: str
    """Why ``spec`` was left out; empty if it is there."""
    refers_to: str
    """Name of the Secret or of the GitOpsDeployment that it names; may be empty."""
    secret_type: str
    """Type of the Secret that it names, as the watcher found it at the last change."""
    created_at: int
    """Milliseconds since 1970, in whole seconds."""
    over_quota: bool
    """Its tenant has too many of its kind: nothing follows from it."""
    digest: str | None
    """Of what was compiled from it for an engine; None if nothing is there."""
    seen_at: datetime
    trace_id: str

    @property
    def wanted(self) -> bool:
        """What it asks for shall be so."""
        return self.present and not self.deleting and not self.over_quota


@dataclass(frozen=True, slots=True)
class Check:
    """What an agent found when it tried the credentials of a resource."""

    resource_id: UUID
    digest: str
    """Of the compiled manifest that was tried."""
    reason: str
    message: str
    succeeded_before: bool
    """Some check of this resource has succeeded, so an engine holds credentials that worked once."""


SyncState = Literal["Waiting", "Running", "Terminating", "Ended", "Refused"]


@dataclass(frozen=True, slots=True)
class SyncRun:
    """How far a GitOpsDeploymentSyncRun has come."""

    resource_id: UUID
    deployment_name: str
    """As first seen: it is immutable."""
    revision: str
    """As first seen; empty: what the deployment tracks."""
    deployment_id: UUID | None
    """Of the deployment it was started for."""
    sequence: int
    """Grows with each run that is started for a deployment; 0 before it is started."""
    state: SyncState
    phase: str
    message: str
    """The engine's words, or why it was refused."""
    synced_revision: str
    started_at: str
    finished_at: str


@dataclass(frozen=True, slots=True)
class Project:
    """A tenant's AppProject row, as far as a plan needs it."""

    wanted: bool
    digest: str


@dataclass(frozen=True, slots=True)
class EngineRow:
    """A row of ``engine_resources`` to be written."""

    engine_instance_id: str
    kind: str
    namespace: str
    name: str
    workspace: str
    tenant_namespace: str
    lane: str
    wave: int
    desired: Literal["present", "absent"]
    manifest: str
    digest: str
    trace_id: str
    seen_at: datetime


EngineKey = tuple[str, str, str, str]
"""Instance, kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """A row of ``workspace_resources``."""

    workspace: str
    namespace: str
    kind: str
    name: str
    uid: str
    generation: int
    status: str
    release_finalizer: bool
    digest: str
    trace_id: str
    seen_at: datetime


WorkspaceKey = tuple[str, str, str, str]
"""Workspace, namespace, kind, name."""


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
class Sighting:
    """A deployment was seen again and nothing about it had changed."""

    deployment_id: UUID
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
    projects: Mapping[UUID, Project] = field(default_factory=dict)
    repositories: Mapping[UUID, Mapping[str | None, int]] = field(default_factory=dict)
    """Deployments by repository, per tenant; those without an Application under None."""
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
    operations: tuple[Operation, ...] = ()
    operations_moved: tuple[OperationMoved, ...] = ()
    engine: tuple[EngineRow, ...] = ()
    engine_gone: tuple[EngineKey, ...] = ()
    workspace: tuple[WorkspaceRow, ...] = ()
    workspace_gone: tuple[WorkspaceKey, ...] = ()
    refused_sweeps: tuple[SweepScope, ...] = ()
    """Markers that would have removed an implausible share; nothing was."""
