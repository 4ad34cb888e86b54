"""What the planner knows of the world: tenants, what they asked for, and what agents found of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Action = Literal["create", "update", "delete"]
OperationState = Literal["Waiting", "Completed", "Failed"]
SyncState = Literal["Waiting", "Running", "Terminating", "Ended", "Refused"]


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
    """The spec that its Application is compiled from."""
    offered: str | None
    """A newer spec, well-formed, that waits for its environment or for room; None if ``spec`` is the newest."""
    environment: str | None
    """Name of the environment that the newest of the two names."""
    repository: str | None
    digest: str | None
    error: str
    """What is wrong with the newest spec as it was written."""
    blocked: str
    """Why the newest well-formed spec cannot be had, by no fault of its own text."""
    over_quota: bool
    """It waits until its tenant has room for it."""
    held_back_ms: int
    """How long the watcher held the newest change back."""
    sync_sequence: int
    """Of the newest sync that was started for it."""
    seen_at: datetime
    trace_id: str

    @property
    def wanted(self) -> bool:
        """Its Application shall exist."""
        return self.present and not self.deleting

    @property
    def problem(self) -> str:
        """What its user is told; empty if nothing is wrong."""
        return self.error or self.blocked

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
    target_uid: str
    """Of a sync run: uid of the deployment it names, as the watcher first found it."""
    target_generation: int
    """Its generation then: what the run is meant to sync."""
    accepted: str
    """JSON of the spec that counts: of an environment the one that its recipe was compiled from; empty if none is."""
    refusal: str
    """JSON of what is wrong with it: status, reason and message of its condition; empty if nothing is."""
    over_quota: bool
    """Its tenant has too many of its kind: nothing new follows from it."""
    held_back_ms: int
    """How long the watcher held the newest change back."""
    seen_at: datetime
    trace_id: str

    @property
    def wanted(self) -> bool:
        """What it asks for shall be so, if its tenant has room for it."""
        return self.present and not self.deleting


@dataclass(frozen=True, slots=True)
class Check:
    """What an agent found when it tried the credentials of a resource."""

    resource_id: UUID
    digest: str
    """Of the compiled manifest that was tried."""
    reason: str
    message: str
    worked: str
    """JSON of the spec with which credentials last worked, which an engine holds since; empty if none ever did."""


@dataclass(frozen=True, slots=True)
class SyncRun:
    """How far a GitOpsDeploymentSyncRun has come."""

    resource_id: UUID
    deployment_name: str
    """As first seen: it is immutable."""
    revision: str
    """As first seen; empty: what the deployment tracks."""
    first_version: int
    """Resource version at first sight: decides whose turn it is among runs of the same second."""
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
