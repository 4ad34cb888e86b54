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
    """The recipe of a Secret by which Argo CD knows a cluster."""
    REPOSITORY_SECRET = "RepositorySecret"  # noqa: S105 - a kind
    """Likewise of a repository."""
    SYNC_OPERATION = "SyncOperation"
    """A request to sync an Application: a field of that, no object of its own."""


MAX_MANIFEST = 1024 * 1024
"""Bytes. An API server stores no object longer than 1.5 MiB, and Kafka Connect stops at a message longer than 4."""

RELEASE = "release"
"""Field of a manifest whose object is to be given up to another instance: it goes, and nothing that was made with it.

Not a third value of ``desired``: an agent that does not know it would take the row for absent, and delete all that the
object has deployed. So it leaves the object as it is.
"""

AT_ONCE = "atOnce"
"""Field beside that: nothing that its engine does is waited for, because that is down, or was."""

ORPHAN_REMOVAL = "OrphanRemoval"
"""Of a row that is of no tenant: the approval of an operator to remove objects that no row desires."""

ORDERS = (RowKind.SYNC_OPERATION.value, ORPHAN_REMOVAL, REMEDY)
"""Kinds of rows that are no object: an agent carries them out, and they go."""


@dataclass(frozen=True, slots=True)
class StreamedRow:
    """A row of a table as Debezium streams it. What rows of an earlier release may lack has a default."""

    KEY: ClassVar[tuple[str, ...]]
    """Columns of the primary key."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Build from a decoded CDC record. Raises Poison if a column is missing."""
        return cls(**_columns(cls, record))

    @classmethod
    def from_tombstone(cls, key: Mapping[str, Any]) -> Self:
        """The deleted row of a decoded key, which is all that is streamed of it. Raises Poison if a column is missing.

        Debezium gives the other columns of a deleted row placeholders, too (replica identity ``DEFAULT``).
        """
        return cls.from_record({**_placeholders(cls), **key})  # type: ignore[arg-type]  # for it, no class has a hash


@dataclass(frozen=True, slots=True)
class EngineResource(StreamedRow):
    """An object that an engine instance shall hold, or shall no longer hold."""

    KEY = ("engine_instance_id", "kind", "namespace", "name")

    engine_instance_id: str
    kind: str
    """A RowKind; text, because it crossed a wire: a row of another kind is refused, not a poison."""
    namespace: str
    name: str
    workspace: str
    tenant_namespace: str
    lane: str
    """Resources of one lane are applied in waves."""
    wave: int
    desired: Literal["present", "absent"]
    manifest: str
    digest: str
    trace_id: str
    seen_at: datetime
    deleted: bool
    """The row itself is gone: forget the object."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Instance, kind, namespace and name: what makes it the same object."""
        return (self.engine_instance_id, self.kind, self.namespace, self.name)

    @property
    def tenant(self) -> str:
        """Workspace and namespace of whom it is made for."""
        return f"{self.workspace}/{self.tenant_namespace}"


@dataclass(frozen=True, slots=True)
class WorkspaceResource(StreamedRow):
    """The status that a CR shall show, and whether its finalizer may go."""

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
    """A Secret with the content of another one of its namespace: the watcher copies it, and no row has that."""


class UnownedKind(StrEnum):
    """Kinds of objects that have no controller, in rows of ``workspace_objects`` that say what shall be changed of one.

    A row without a uid has the object made, unless there is one of the name. One with a uid is bound to that object: it
    is patched, or deleted if the row says ``absent``. Such an object outlives whatever has asked for it.
    """

    ENVIRONMENT = "Environment"
    BINDING = "SnapshotEnvironmentBinding"
    PROMOTION_RUN = "PromotionRun"
    CLAIM = "DeploymentTargetClaim"
    TARGET = "DeploymentTarget"
    SPACE_REQUEST = "SpaceRequest"


@dataclass(frozen=True, slots=True)
class WorkspaceObject(StreamedRow):
    """A child object that a tenant's namespace shall hold, or shall no longer; or a change of an unowned object."""

    KEY = ("workspace", "namespace", "kind", "name")

    workspace: str
    namespace: str
    kind: str
    """A ChildKind or an UnownedKind; text, because it crossed a wire: a row of another kind is refused."""
    name: str
    desired: Literal["present", "absent"]
    uid: str
    """Of the object that is to go, or that a patch is bound to; empty: whatever has the name, if it is ours."""
    owner_api_version: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    """Of the custom resource that it is made for. Of a child object the controller: one of another is not ours."""
    manifest: str
    """JSON of what we own: labels, annotations and spec; in place of that, of a copy the Secret and the copy's type.

    Of an unowned object what is changed of it, likewise, with its finalizers.
    """
    digest: str
    """SHA-256 of the manifest, hexadecimal."""
    revision: int
    """Grows when the same manifest is to be applied anew."""
    trace_id: str
    seen_at: datetime
    deleted: bool
    """The row itself is gone: nothing is wanted of the object."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Workspace, namespace, kind and name: what makes it the same object."""
        return (self.workspace, self.namespace, self.kind, self.name)


@dataclass(frozen=True, slots=True)
class PendingClaim(StreamedRow):
    """A claim that waits for a provisioner of others, or waits no more and has never had a target."""

    KEY = ("workspace", "namespace", "name", "uid")

    workspace: str
    namespace: str
    name: str
    uid: str
    class_name: str
    provisioner: str
    """As the class names it."""
    parameters: str
    """Of the class, JSON."""
    generation: int
    """Of the claim."""
    state: Literal["wanted", "withdrawn"]
    created_at: datetime
    """Of the claim."""
    deleted: bool
    """The row itself is gone: the claim has a target, or there is no such claim any more."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Workspace, namespace, name and uid."""
        return (self.workspace, self.namespace, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class TenantClusters(StreamedRow):
    """In which engine clusters a tenant is, and so whose agents have to open its Secrets."""

    KEY = ("tenant_id",)

    tenant_id: str
    namespace_digest: str
    """Of its namespace, as :func:`namespace_digest` makes it: the watchers of all workspaces read the row."""
    engine_clusters: str
    """Comma separated: one, or two while it is moved from one to the other."""
    deleted: bool
    """The row itself is gone: there is no such tenant any more."""

    @property
    def clusters(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(filter(None, self.engine_clusters.split(",")))


def namespace_digest(workspace: str, namespace: str, uid: str) -> str:
    """What tells a namespace to those alone who know it: nobody guesses a uid. The planner makes it in the database."""
    return digest(f"{workspace}/{namespace}/{uid}")


@dataclass(frozen=True, slots=True)
class FleetInstance(StreamedRow):
    """An engine instance: where it is, and for whom."""

    KEY = ("id",)

    id: str
    engine: str
    """Which GitOps system it is, such as ``argocd``."""
    engine_cluster: str
    namespace: str
    """Of that cluster."""
    region: str
    engine_class: str
    """``shared`` or ``dedicated``."""
    dedicated_to: str
    """The workspace whose tenants alone it has; empty if it is shared."""
    ring: str
    capacity: int
    """How many Applications it is to hold at most."""
    state: str
    deleted: bool
    """The row itself is gone: somebody has removed it from the database."""
    wanted_version: str = ""
    """Of the engine, that a provisioner installs and keeps; empty: somebody else looks after it."""
    profile: str = ""
    """Configuration that it is installed with; empty: the usual one."""
    reapply_ordered_at: datetime | None = None
    """When its provisioner was last told to make anew what is older of its settings and workloads; None: never."""
    health: str = ""
    """A Health, as its agent told last; empty: it has told nothing yet."""
    health_reason: str = ""
    """A word; empty if it is well."""

    @property
    def is_retired(self) -> bool:
        """It has nothing any more, and never will."""
        return self.state == RETIRED

    @property
    def is_in_service(self) -> bool:
        """Whether tenants may be on it, or what is left of them."""
        return self.state not in (*UNREADY, RETIRED)

    @property
    def is_working(self) -> bool:
        """Whether it does its work in time, by what its agent says."""
        return is_working(self.health, self.health_reason)

    @property
    def is_ill(self) -> bool:
        """Whether its agent says that it does not; of one that tells nothing nobody knows."""
        return self.health in (Health.DEGRADED, Health.DOWN) and not self.is_working


RETIRED = "retired"
"""State of an instance whose row stays for its id alone."""
UNREADY = ("provisioning", "failed")
"""States of an instance that has never been ready for tenants."""
RINGS = ("canary", "early", "general")
"""Of instances, in the order in which what is new comes to them."""

Row = EngineResource | WorkspaceResource | WorkspaceObject | PendingClaim | TenantClusters | FleetInstance


EPOCH = "1970-01-01T00:00:00Z"

TIMES = {"seen_at", "created_at", "reapply_ordered_at"}
"""Columns; of a deleted row only the key is streamed, and these are placeholders or have no value."""


@cache
def _placeholders(row: type[StreamedRow]) -> Mapping[str, Any]:
    """What the columns beside the key say of a row that is gone."""
    types = get_type_hints(row)
    required = {field.name for field in fields(row) if field.default is MISSING} - {"deleted", *row.KEY}
    return {"__deleted": "true"} | {name: _placeholder(types[name]) for name in required}


def _placeholder(of: Any) -> Any:
    """Of a column of a type; of one that has a few words the last of them, which is that nothing is wanted any more."""
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
    """Of one column; of one that rows of before do not have, or that has no value, what stands for that."""
    if field.default is MISSING:
        return record[field.name]
    found = record.get(field.name)
    return field.default if found is None else found
