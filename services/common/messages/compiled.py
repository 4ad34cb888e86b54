"""Rows of the compiled tables, and of the fleet, as Debezium streams them: flat, one Avro record per row.

Their schemas follow from the tables' columns, and are released like ours (``schemas/avro/compiled``); these classes
name the columns that consumers use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from services.common import argocd_names
from services.common.errors import Poison
from services.common.json_values import digest
from services.common.messages.observation import Health, is_working
from services.common.messages.remedy import REMEDY


class RowKind(StrEnum):
    """What a row of ``engine_resources`` can desire: the kinds that the planner compiles and an agent accepts."""

    APPLICATION = argocd_names.APPLICATION
    APP_PROJECT = argocd_names.APP_PROJECT
    CLUSTER_SECRET = "ClusterSecret"  # noqa: S105 - a kind
    """The recipe of the Secret that describes a cluster to Argo CD."""
    REPOSITORY_SECRET = "RepositorySecret"  # noqa: S105 - a kind
    """The recipe of the Secret that describes a repository to Argo CD."""
    SYNC_OPERATION = "SyncOperation"
    """A request to sync an Application: a field of the Application, and no object of its own."""


MAX_MANIFEST = 1024 * 1024
"""Bytes. An API server stores no object above 1.5 MiB, and Kafka Connect stops at a message above 4 MiB."""

RELEASE = "release"
"""Field of a manifest: the object is released to another instance. It is deleted, and what was deployed with it stays.
This is no third value of ``desired``, because an older agent would delete the object with everything that it has
deployed. With the field, an older agent leaves the object as it is."""

AT_ONCE = "atOnce"
"""A second field: the release does not wait for the engine, which is down, or was."""

ORPHAN_REMOVAL = "OrphanRemoval"
"""Kind of a row without a tenant: an operator's approval to remove objects that no row desires."""

ORDERS = (RowKind.SYNC_OPERATION.value, ORPHAN_REMOVAL, REMEDY)
"""Kinds of rows that are no objects. An agent carries them out, and they are deleted."""


@dataclass(frozen=True, slots=True)
class StreamedRow:
    """A row of a table as Debezium streams it. Columns that rows of earlier releases lack have defaults."""

    KEY: ClassVar[tuple[str, ...]]
    """Columns of the primary key."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Build from a decoded CDC record. Raises Poison if a column is missing."""
        return cls(**_columns(cls, record))

    @classmethod
    def from_tombstone(cls, key: Mapping[str, Any]) -> Self:
        """The deleted row of a decoded key, which is all that is streamed of it. Raises Poison if a column is missing.

        Debezium fills the other columns of a deleted row with placeholders, too (replica identity ``DEFAULT``).
        """
        return cls.from_record({**_placeholders(cls), **key})  # type: ignore[arg-type]  # for it, no class has a hash


@dataclass(frozen=True, slots=True)
class EngineResource(StreamedRow):
    """An object that an engine instance should have, or should no longer have."""

    KEY = ("engine_instance_id", "kind", "namespace", "name")

    engine_instance_id: str
    kind: str
    """A RowKind. It is text because it comes from outside: a row of another kind is refused, and is not a Poison."""
    namespace: str
    name: str
    workspace: str
    tenant_namespace: str
    lane: str
    """Rows of one lane are applied in waves."""
    wave: int
    desired: Literal["present", "absent"]
    manifest: str
    digest: str
    trace_id: str
    seen_at: datetime
    deleted: bool
    """The row is deleted: forget the object."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Instance, kind, namespace and name identify the object."""
        return (self.engine_instance_id, self.kind, self.namespace, self.name)

    @property
    def tenant(self) -> str:
        """Workspace and namespace of the tenant."""
        return f"{self.workspace}/{self.tenant_namespace}"


@dataclass(frozen=True, slots=True)
class WorkspaceResource(StreamedRow):
    """The status that a resource should show, and whether its finalizer may be removed."""

    KEY = ("workspace", "namespace", "kind", "name")

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
    deleted: bool


class ChildKind(StrEnum):
    """What a row of ``workspace_objects`` can desire: the kinds that the planner compiles and a watcher applies."""

    DEPLOYMENT = "GitOpsDeployment"
    MANAGED_ENVIRONMENT = "GitOpsDeploymentManagedEnvironment"
    SECRET_COPY = "SecretCopy"  # noqa: S105 - a kind
    """A Secret with the content of another Secret of its namespace. The watcher copies it; the row has no content."""


class UnownedKind(StrEnum):
    """Kinds of objects without a controller. A row of ``workspace_objects`` says what to change of one.

    A row without a uid creates the object, unless an object has its name. A row with a uid is bound to that object: it
    is patched, or deleted if the row says ``absent``. Such an object outlives the resource that requested it.
    """

    ENVIRONMENT = "Environment"
    BINDING = "SnapshotEnvironmentBinding"
    PROMOTION_RUN = "PromotionRun"
    CLAIM = "DeploymentTargetClaim"
    TARGET = "DeploymentTarget"
    SPACE_REQUEST = "SpaceRequest"


@dataclass(frozen=True, slots=True)
class WorkspaceObject(StreamedRow):
    """A child object that a namespace should have, or should no longer have; or a change of an unowned object."""

    KEY = ("workspace", "namespace", "kind", "name")

    workspace: str
    namespace: str
    kind: str
    """A ChildKind or an UnownedKind. It is text because it comes from outside: a row of another kind is refused."""
    name: str
    desired: Literal["present", "absent"]
    uid: str
    """Uid of the object to delete or patch; empty: the object with the name, if it is ours."""
    owner_api_version: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    """Uid of the resource that wants the object. It is the controller of a child object; one with another controller is
    not ours."""
    manifest: str
    """JSON of what we own: labels, annotations and spec; for a copied Secret its source and type. For an unowned object
    what to change of these, and of its finalizers."""
    digest: str
    """SHA-256 of the manifest, hexadecimal."""
    revision: int
    """Increases when the same manifest has to be applied again."""
    trace_id: str
    seen_at: datetime
    deleted: bool
    """The row is deleted: nothing is desired of the object."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Workspace, namespace, kind and name identify the object."""
        return (self.workspace, self.namespace, self.kind, self.name)


@dataclass(frozen=True, slots=True)
class PendingClaim(StreamedRow):
    """A claim that waits for a provisioner of others, or that stopped waiting without ever having had a target."""

    KEY = ("workspace", "namespace", "name", "uid")

    workspace: str
    namespace: str
    name: str
    uid: str
    class_name: str
    provisioner: str
    """Name of the provisioner in the class."""
    parameters: str
    """Parameters of the class, JSON."""
    generation: int
    """The claim's generation."""
    state: Literal["wanted", "withdrawn"]
    created_at: datetime
    """When the claim was created."""
    deleted: bool
    """The row is deleted: the claim has a target, or does not exist any more."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Workspace, namespace, name and uid."""
        return (self.workspace, self.namespace, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class TenantClusters(StreamedRow):
    """The engine clusters that a tenant is in, whose agents have to open its Secrets."""

    KEY = ("tenant_id",)

    tenant_id: str
    namespace_digest: str
    """Digest of its namespace by :func:`namespace_digest`, because watchers of all workspaces read the row."""
    engine_clusters: str
    """Comma separated: one, or two while the tenant is moved between them."""
    deleted: bool
    """The row is deleted: the tenant does not exist any more."""

    @property
    def clusters(self) -> frozenset[str]:
        """Ids of these engine clusters."""
        return frozenset(filter(None, self.engine_clusters.split(",")))


def namespace_digest(workspace: str, namespace: str, uid: str) -> str:
    """A digest that identifies a namespace only to those who know its uid. The planner computes it in the database."""
    return digest(f"{workspace}/{namespace}/{uid}")


@dataclass(frozen=True, slots=True)
class FleetInstance(StreamedRow):
    """An engine instance: where it is, and for which tenants."""

    KEY = ("id",)

    id: str
    engine: str
    """Its GitOps engine, such as ``argocd``."""
    engine_cluster: str
    namespace: str
    """Its namespace in that cluster."""
    region: str
    engine_class: str
    """``shared`` or ``dedicated``."""
    dedicated_to: str
    """The workspace that it is dedicated to; empty if it is shared."""
    ring: str
    capacity: int
    """The most Applications that it should have."""
    state: str
    deleted: bool
    """The row is deleted: somebody has removed it from the database."""
    wanted_version: str = ""
    """Version of the engine that a provisioner installs; empty: others manage it."""
    profile: str = ""
    """Configuration profile of its installation; empty: the default."""
    reapply_ordered_at: datetime | None = None
    """When its provisioner was last ordered to create older settings and workloads anew; None: never."""
    health: str = ""
    """A Health, as its agent last reported; empty: there is no report yet."""
    health_reason: str = ""
    """One word; empty if it is healthy."""

    @property
    def is_retired(self) -> bool:
        """Whether it is out of service for ever, and empty."""
        return self.state == RETIRED

    @property
    def is_in_service(self) -> bool:
        """Whether tenants, or their objects, may be on it."""
        return self.state not in (*UNREADY, RETIRED)

    @property
    def is_working(self) -> bool:
        """Whether it works in time, by its agent's report."""
        return is_working(self.health, self.health_reason)

    @property
    def is_ill(self) -> bool:
        """Whether its agent reports that it does not work. Without a report that is unknown."""
        return self.health in (Health.DEGRADED, Health.DOWN) and not self.is_working


RETIRED = "retired"
"""State of an instance whose row only reserves its id."""
UNREADY = ("provisioning", "failed")
"""States of an instance that was never ready for tenants."""
RINGS = ("canary", "early", "general")
"""Rings of instances, in the order in which they get new versions."""

Row = EngineResource | WorkspaceResource | WorkspaceObject | PendingClaim | TenantClusters | FleetInstance


EPOCH = "1970-01-01T00:00:00Z"

TIMES = {"seen_at", "created_at", "reapply_ordered_at"}
"""Columns with times. In a deleted row, of which only the key is streamed, they are placeholders or empty."""


@cache
def _placeholders(row: type[StreamedRow]) -> Mapping[str, Any]:
    """Placeholders for the columns besides the key in a deleted row."""
    types = get_type_hints(row)
    required = {field.name for field in fields(row) if field.default is MISSING} - {"deleted", *row.KEY}
    return {"__deleted": "true"} | {name: _placeholder(types[name]) for name in required}


def _placeholder(of: Any) -> Any:
    """A placeholder for a column of this type; for a Literal its last value, which means that nothing is desired."""
    if get_origin(of) is Literal:
        return get_args(of)[-1]
    return EPOCH if of is datetime else of()


def _columns(row: type[StreamedRow], record: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name: field for field in fields(row) if field.name != "deleted"}
    try:
        columns = {name: _value(record, field) for name, field in known.items()}
        columns["deleted"] = record["__deleted"] == "true"
        for name in TIMES & {name for name, value in columns.items() if value is not None}:
            columns[name] = datetime.fromisoformat(columns[name])
    except (KeyError, TypeError, ValueError) as error:
        raise Poison(f"not a {row.__name__} row: {error!r}") from error
    return columns


def _value(record: Mapping[str, Any], field: Field[Any]) -> Any:
    """The value of one column, or its default if the row lacks it."""
    if field.default is MISSING:
        return record[field.name]
    found = record.get(field.name)
    return field.default if found is None else found
