"""The planner's own rows as values; those of the kinds are in ``services.kinds``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple
from uuid import UUID

from services.common.messages import UnownedKind
from services.kinds.gitops_deployment.status import state_shown
from services.kinds.shared.child_objects import DeploymentState

Action = Literal["create", "update", "delete", "reissue"]
AuditState = Literal["Waiting", "Completed", "Failed"]

DEFAULT_ENGINE = "argocd"
"""Of an instance that is added without saying what it runs."""


@dataclass(frozen=True, slots=True)
class EngineInstance:
    """An engine instance."""

    id: str
    namespace: str
    accepting: bool
    engine: str
    """Which engine it runs."""
    dedicated_to: str = ""
    """The workspace whose tenants alone are placed on it; empty: any."""
    capacity: int = 1
    """Applications; to placement, what it counts among the others."""
    leaving: bool = False
    """No tenant stays on it."""
    engine_cluster: str = ""
    """The cluster that it runs in, and that deployments without an environment go to."""
    is_down: bool = False
    """Nothing new is deployed there, as far as anybody knows."""
    is_out_of_reach: bool = False
    """No agent can do anything there, likewise."""
    region: str = ""
    """Its engine cluster's."""
    ring: str = ""
    """When it gets a new version."""
    unready: bool = False
    """It has never been ready for tenants: not even one for which there is no other is placed on it."""
    retired: bool = False
    """It is given up, but rows name it still: nothing comes to it any more."""
    drained: bool = False
    """It is leaving, and no tenant is left on it."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of a workspace."""

    id: UUID
    workspace: str
    namespace: str
    partition: int
    engine_instance_id: str
    """Empty: not placed yet."""
    dormant: bool = False
    """There may be rows of it that are not loaded with it: nothing follows from them."""
    namespace_uid: str = ""
    """Which namespace of that name it is; empty: no watcher has told."""
    namespace_created_at: int = 0
    """Milliseconds since 1970."""
    former_since: int = 0
    """When the namespace was made that has its name now, likewise; 0: it is the current tenant of its name."""

    @property
    def is_former(self) -> bool:
        """Whether its namespace was made again: nothing of it exists any more, and what engines hold of it goes."""
        return bool(self.former_since)

    @property
    def full_name(self) -> TenantName:
        """Which it shares with those that had its name before."""
        return (self.workspace, self.namespace)


TenantName = tuple[str, str]
"""Workspace and namespace."""
PART = "@"
"""In the name of a part of a tenant, between namespace and instance: no namespace has it in its name."""


def tenant_of_part(name: TenantName) -> TenantName:
    """Whose part has this name; the very same if it is a tenant's."""
    workspace, namespace = name
    return (workspace, namespace.partition(PART)[0])


@dataclass(frozen=True, slots=True)
class AuditRecord:
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
    state: AuditState
    message: str
    trace_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change that has an audit row of its own, although a former change may have its id.

    Generations of a resource grow, and its deletion is its last change, unless its API server is restored from a
    backup: then the same generations, and the deletion, come once more.
    """

    id: UUID
    displaced_id: UUID
    """Which the row of a former change gets."""
    deletion_id: UUID | None
    """Of the row of the resource's deletion, if the resource is there and had no row: was it there before?"""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What became of an operation that is still open."""

    id: UUID
    state: AuditState
    message: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RefusedSweep:
    """A resync marker that would have removed an implausible share, and what it would have removed."""

    source: str
    kind: str
    partition: int
    epoch: int
    known: int
    """Resources that there were."""
    subjects: str
    """JSON of the ids of those that would have been removed, sorted."""
    digest: str
    """Of all that an operator approves with it: an approval names it."""
    refused_at: datetime


@dataclass(frozen=True, slots=True)
class SweepPart:
    """A part of what a complete list lacked, small enough to be removed in one transaction."""

    source: str
    kind: str
    partition: int
    epoch: int
    """Of the list: what has been seen since it began stays."""
    turn: int
    """The first part of each sweep comes before the second of any."""
    subjects: str
    """JSON of the ids of the resources."""
    trace_id: str
    seen_at: datetime
    """When the list was complete, by the clock of its watcher."""


@dataclass(frozen=True, slots=True)
class KeptOrphans:
    """Objects of an instance that no row desires, and that its agent keeps because they are so many."""

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


@dataclass(frozen=True, slots=True)
class ParkedTenant:
    """A tenant that a rule of ours fails on, or that has no instance: nothing of it is planned while that is so."""

    tenant_id: UUID
    workspace: str
    namespace: str
    partition: int
    error: str
    """Type and place of the exception; or why it cannot be placed."""
    parked_at: datetime

    @property
    def full_name(self) -> TenantName:
        """Of the tenant."""
        return (self.workspace, self.namespace)

    @property
    def unplaced(self) -> Tenant:
        """The tenant, as far as it is known from this alone."""
        return Tenant(self.tenant_id, self.workspace, self.namespace, self.partition, "")


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event of a parked tenant, kept to be planned later."""

    tenant_id: UUID
    partition: int
    trace_id: str
    message: str
    """JSON."""


# Rows of the tables that are streamed: what engines and tenants' namespaces shall hold, and what CRs shall show.

Presence = Literal["present", "absent"]


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
    desired: Presence
    manifest: str
    digest: str
    trace_id: str
    seen_at: datetime
    owner_kind: str
    owner_id: UUID


class EngineKey(NamedTuple):
    """Of a row of ``engine_resources``."""

    engine_instance_id: str
    kind: str
    namespace: str
    name: str
    lane: str
    """So that a row of another tenant is never meant."""


@dataclass(frozen=True, slots=True)
class EngineAbsence:
    """An object that an engine shall no longer hold, whatever its manifest is."""

    engine_instance_id: str
    kind: str
    namespace: str
    name: str
    lane: str
    trace_id: str
    seen_at: datetime


class Owner(NamedTuple):
    """Whom an object of an engine is made for."""

    kind: str
    """Of the custom resource; ``TENANT`` if it is for all of a tenant's."""
    id: UUID


TENANT = "Tenant"


@dataclass(frozen=True, slots=True)
class EngineObject:
    """A row of ``engine_resources`` that is not of one deployment, as far as a plan needs it."""

    is_desired: bool
    digest: str
    size: int
    """Bytes of its manifest."""
    owner: Owner


EngineObjectKey = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """A row of ``workspace_statuses``."""

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


class WorkspaceKey(NamedTuple):
    """Of a row of ``workspace_statuses``."""

    workspace: str
    namespace: str
    kind: str
    name: str
    uid: str
    """So that the status of another incarnation is never meant."""


@dataclass(frozen=True)
class StoredStatus:
    """A row of ``workspace_statuses``, as far as a plan needs it."""

    uid: str
    generation: int
    status: str
    release_finalizer: bool

    @cached_property
    def deployment_state(self) -> DeploymentState:
        """How a deployment is that shows it, which is read once: a status may be long, and few of many change."""
        return state_shown(self.status)


@dataclass(frozen=True, slots=True)
class ChildRow:
    """A row of ``workspace_objects``."""

    workspace: str
    namespace: str
    kind: str
    name: str
    desired: Presence
    uid: str
    """Of the object that is to go; empty if it is wanted, or if none has been seen yet."""
    owner_api_version: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    manifest: str
    digest: str
    revision: int
    """Grows with every change of the row."""
    trace_id: str
    seen_at: datetime
    live_version: str
    """Of the object as it was when this was written: how it differed then is answered with it. Not streamed."""

    @property
    def key(self) -> ChildKey:
        """Kind and name."""
        return (self.kind, self.name)

    @property
    def is_unowned(self) -> bool:
        """Whether it is about an object that is no child."""
        return self.kind in UNOWNED


UNOWNED = frozenset(kind.value for kind in UnownedKind)
ChildKey = tuple[str, str]
"""Kind and name of an object: a ChildKind, or an UnownedKind."""


class ChildRowKey(NamedTuple):
    """Of a row of ``workspace_objects``."""

    workspace: str
    namespace: str
    kind: str
    name: str
    owner_uid: str
    """So that a row of another owner is never meant."""


ClaimState = Literal["wanted", "withdrawn"]


@dataclass(frozen=True, slots=True)
class PendingClaimRow:
    """A row of ``pending_claims``."""

    workspace: str
    namespace: str
    name: str
    uid: str
    class_name: str
    provisioner: str
    parameters: str
    """Of the class, canonical JSON."""
    generation: int
    """Of the claim."""
    state: ClaimState
    created_at: datetime
    """Of the claim."""


class PendingClaimKey(NamedTuple):
    """Of a row of ``pending_claims``."""

    workspace: str
    namespace: str
    name: str
    uid: str


ResourceName = tuple[str, str]
"""Kind and name of a custom resource or a Secret: what one incarnation of it has at a time."""

StatusKey = ResourceName
