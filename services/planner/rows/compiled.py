"""Rows of the tables ``compiled``: what engines and tenants' namespaces shall hold, and what CRs shall show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple
from uuid import UUID

from services.common.messages import UnownedKind
from services.kinds.gitops_deployment.status import state_shown
from services.kinds.shared.child_objects import DeploymentState
from services.planner.rows.tenants import ResourceName

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


StatusKey = ResourceName


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
