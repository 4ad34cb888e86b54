"""What the planner asks of a GitOps engine. Everything that only one engine knows is behind this.

The rules speak of deployments, clusters, repositories, syncs, and of what confines a tenant. An engine says which
objects those are: their kinds, names and contents, and what its agents' reports of deployments mean.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from services.common.api_resource import GroupKind
from services.common.json_values import digest
from services.common.messages import MAX_MANIFEST
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.gitops_deployment.status import EngineReport
from services.kinds.shared.connections import Connection
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.rows.compiled import EngineKey, EngineObjectKey, EngineRow, Owner, Presence
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant

DEPLOYMENT_LOAD = 10
"""The work with the object of one deployment: the unit in which load is measured is a tenth of that."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a tenant's objects are."""

    tenant: Tenant
    instance: PlacementCandidate


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object that an engine shall hold."""

    kind: str
    name: str
    wave: int
    """Within a tenant lower ones come first; deletions go in reverse."""
    text: str
    """Canonical JSON."""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.text))

    @property
    def key(self) -> EngineObjectKey:
        """Kind and name."""
        return (self.kind, self.name)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text) if self.text.isascii() else len(self.text.encode())

    @property
    def is_oversized(self) -> bool:
        """Whether it must not be written: Kafka Connect or the API server would stop at it, for all tenants."""
        return self.size > MAX_MANIFEST


@dataclass(frozen=True, slots=True)
class Target:
    """Where a deployment goes to: an environment, or the engine's own cluster."""

    environment: UUID | None = None
    cluster_resources: bool = False
    """The environment allows resources outside of namespaces."""
    is_local: bool = False
    """The engine's own cluster. Neither that nor an environment: nowhere, what is there is left alone."""


LOCAL = Target(is_local=True)
NOWHERE = Target()


@dataclass(frozen=True, slots=True)
class Destination:
    """A cluster that a tenant's deployments may go to."""

    environment: UUID | None
    """None: the engine's own cluster."""
    namespaces: tuple[str, ...]
    """Empty: all of them."""
    cluster_resources: bool = False


@dataclass(frozen=True, slots=True)
class Confinement:
    """All that a tenant's deployments may use."""

    repositories: Collection[str]
    destinations: tuple[Destination, ...]
    refused_kinds: frozenset[GroupKind] = frozenset()
    """Kinds that cannot be deployed to destinations without cluster resources."""


class Engine(Hashable, Protocol):
    """One GitOps engine."""

    def lane(self, tenant: UUID) -> str:
        """Name under which all of a tenant's rows are kept in order."""

    def load_of(self, kind: str) -> int:
        """The work that the engine has with an object of the kind; :data:`DEPLOYMENT_LOAD` with a deployment's."""

    def deployment_key(self, uid: str) -> EngineObjectKey:
        """Of the object that a deployment becomes."""

    def deployment_uid(self, key: EngineObjectKey) -> str | None:
        """Of the deployment that becomes this object; None: it is another sort of object."""

    def deployment(
        self, placement: Placement, deployment: UUID, uid: str, spec: GitOpsDeploymentSpec, target: Target
    ) -> Manifest:
        """The object that deploys ``spec``."""

    def projects(self, placement: Placement, confinement: Confinement) -> tuple[Manifest, ...]:
        """The objects that confine a tenant."""

    def objects(
        self, placement: Placement, resource: PlainResource, connection: Connection, *, cluster_resources: bool
    ) -> tuple[Manifest, ...]:
        """What ``resource`` wants. The first by key is the one that agents check and report on.

        ``cluster_resources``: some deployments may have resources outside of namespaces, and use it, too.
        """

    def sync_request(
        self, placement: Placement, deployment_uid: str, run_uid: str, run: SyncRun, revision: str
    ) -> Manifest:
        """The request to sync a deployment, or to end that sync."""

    def released(self, manifest: Manifest, *, at_once: bool) -> Manifest:
        """The same object of a deployment, to be given up: it goes, and what it has deployed stays.

        ``at_once``: whatever the engine does with it is not waited for.
        """

    def handed_over(self, manifest: Manifest) -> Manifest:
        """The same object of a connection, to be removed: what was made for it elsewhere stays."""

    def read_status(self, status: str, sync_error: str | None, environments: Mapping[UUID, str]) -> EngineReport:
        """What a reported status says.

        Args:
            status: JSON text as an agent sent it, with the last operation; empty if none did yet.
            sync_error: the message of the condition that says why a sync failed, if it holds now.
            environments: names of the tenant's environments.
        """

    def with_last_operation(self, status: str, before: str) -> str:
        """A reported status that shows what was done last, if it tells nothing of that and ``before`` does.

        The engine has done nothing since, or is another one that the deployment has come to, and has nothing to do.

        Args:
            status: JSON text as an agent sent it; empty if there is nothing to tell.
            before: what this has returned of the report before; empty if there was none.
        """

    def is_syncing(self, status: str) -> bool:
        """Whether a reported status says that an attempt to sync is under way; one that waits for the next is not."""

    def needs_login(self, failure: str) -> bool:
        """Whether the message of a failed sync says that the repository cannot be read without a login."""

    def knows_version(self, version: str) -> bool:
        """Whether agents of this build work with this version, in the words in which they tell it."""

    def is_tested(self, version: str) -> bool:
        """Whether this build was tested with this version, likewise."""


def engine_key(engine: Engine, placement: Placement, key: EngineObjectKey) -> EngineKey:
    """Key of the row of a tenant's object."""
    kind, name = key
    return EngineKey(placement.instance.id, kind, placement.instance.namespace, name, engine.lane(placement.tenant.id))


def engine_row(
    engine: Engine, placement: Placement, manifest: Manifest, owner: Owner, presence: Presence, cause: Cause
) -> EngineRow:
    """The row of a tenant's object."""
    return EngineRow(
        engine_instance_id=placement.instance.id,
        kind=manifest.kind,
        namespace=placement.instance.namespace,
        name=manifest.name,
        workspace=placement.tenant.workspace,
        tenant_namespace=placement.tenant.namespace,
        lane=engine.lane(placement.tenant.id),
        wave=manifest.wave,
        desired=presence,
        manifest=manifest.text,
        digest=manifest.digest,
        trace_id=cause.trace_id,
        seen_at=cause.at,
        owner_kind=owner.kind,
        owner_id=owner.id,
    )
