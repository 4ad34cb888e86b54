"""The declarations of a kind. Each folder makes one object of these classes; the registry lists them.

A :class:`DefinedKind` has a CRD and a page, a :class:`Kind` is followed and planned, a :class:`CustomKind` is both. A
:class:`ForeignKind` is a kind of another service that is followed.

Everything that depends on a kind is derived from its declarations: the CRD and its page, what the watcher follows and
may do, quotas, the audit, and which rules the planner calls. A hook is a pure function of values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from services.common.addresses import AddressPolicy
from services.common.api_resource import ApiResource
from services.common.json_values import text_at
from services.common.messages import ChildKind, UnownedKind
from services.common.secret_use import SecretUse
from services.kinds.shared.api_model import ApiModel, Rule
from services.kinds.shared.catalogue import Entry
from services.kinds.shared.child_objects import ChildDeployment
from services.kinds.shared.conditions import CONDITIONS
from services.kinds.shared.connections import Connection, ConnectionInputs
from services.kinds.shared.limits import Limits
from services.kinds.shared.projection import NOTHING, Projection
from services.kinds.shared.resource import Check, Incarnation, PlainResource


@dataclass(frozen=True, slots=True)
class Column:
    """One column of ``kubectl get``."""

    heading: str
    path: str
    """JSON path."""
    type: str = "string"
    is_wide: bool = False
    """Whether only ``-o wide`` shows it."""


AGE = Column("Age", ".metadata.creationTimestamp", "date")
"""A CRD with its own columns lacks the API server's default column."""

CATEGORY = "gitops"
"""``kubectl get gitops`` lists resources of all kinds."""


@dataclass(frozen=True, slots=True)
class WaitExample:
    """What users can wait for with ``kubectl wait``."""

    until: str
    """The end of the wait, as a text after "until"."""
    flag: str
    """The value of ``--for``."""
    minutes: int = 5
    """The timeout for scripts."""


def condition_column(heading: str, type_: str, member: str, *, is_wide: bool = False) -> Column:
    """A column that shows one member of a condition."""
    return Column(heading, f".status.conditions[?(@.type=='{type_}')].{member}", is_wide=is_wide)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of a spec that names another resource of the same namespace."""

    field: str
    """Path in the spec, with dots between the names of fields."""
    to: ApiResource
    secret_type: str = ""
    """Type of the named Secret, if only one type can be used. Secrets of these types are followed. For a Secret of
    another type, commands about the resource have the type."""
    refusals: Mapping[str, tuple[str, str, str]] = dataclasses.field(default_factory=dict)
    """The condition for each ``Defect`` of that Secret, see ``secret/rules.py``. A message may have parts in braces:
    secret, type, detail, quota."""
    secret_use: Callable[[str], SecretUse | None] | None = None
    """What a resource with this spec (JSON text as a user wrote it) uses the Secret for; None if the spec is invalid.
    The content is used for nothing else: agents refuse uses that no watcher has sealed."""


@dataclass(frozen=True, slots=True)
class CheckReasons:
    """Reasons of an agent's check of a resource, besides problems of the resource itself."""

    succeeded: str
    not_applied: str
    """The engine's API server refuses the object made from it."""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """Everything that the status of a resource depends on."""

    resource: PlainResource
    own: Any
    """The row that only this kind has; None if it has none."""
    check: Check | None
    """An agent's newest result, for any manifest."""
    digest: str | None
    """Digest of the manifest that an engine should have now; None if there is none."""
    previous: str
    """The status compiled last for this incarnation, ``"{}"`` if there is none."""
    at: datetime
    """Time of the event that may change the status."""
    limits: Limits
    target_exists: bool = True
    """Whether the resource that this one waits for exists; False only if it waits for one that it names."""
    deployments: tuple[ChildDeployment, ...] = ()
    """Child objects that are GitOpsDeployments, sorted by name."""


ConnectionsOf = Callable[[ConnectionInputs], tuple[Connection, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedKind:
    """What all kinds have."""

    resource: ApiResource

    @property
    def name(self) -> str:
        """Its name in manifests, commands and metrics."""
        return self.resource.kind

    @property
    def plural(self) -> str:
        """Its plural in paths and ``kubectl``."""
        return self.resource.plural


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind(NamedKind):
    """A kind that the watcher follows and the planner stores. A hook that is None does nothing."""

    default_quota: int
    """How many of them a tenant may have, unless operators set another number."""
    counted: str = ""
    """Which of them count, as a text after their plural; empty: all."""
    is_dormant: bool = False
    """Whether there may be any number of resources, most of which have no effect: a planner loads only those that
    others name. Only the quota in their status follows from them by themselves."""
    row: type[Incarnation] = PlainResource
    """What the planner stores. Kinds with their own row have their own steps in a plan."""
    reference: Reference | None = None
    copied_secret: str = ""
    """Path in the spec to the name of a Secret of any type that others copy. Commands have its type and version, and a
    resource is sent again when they change. ``reference`` then names another kind of object."""
    projection: Projection = NOTHING
    """What rules see of a resource. Kinds with their own row have no status in it."""
    finalizer: str = ""
    """Users add it to a resource that should stay until everything it requested is gone."""
    recall: Callable[[str], str] | None = None
    """From the recalled status of a resource that is new to the planner, ``PlainResource.accepted``."""
    audited: bool = False
    """Whether each change of a resource is an operation with a recorded outcome."""
    concluded: Callable[[PlainResource], tuple[bool, str] | None] | None = None
    """For a resource that does something once: whether it has succeeded, and what is recorded of it; None: it
    continues."""
    accept_spec: Callable[[PlainResource, AddressPolicy, Limits], ApiModel] | None = None
    """The spec of a resource. Raises Refused."""
    connections: ConnectionsOf | None = None
    """What an engine should have because of an accepted spec. The planner compiles, owns and removes it."""
    children: tuple[ChildKind, ...] = ()
    """Kinds of child objects that its resources want. The watcher gets the rights to create them."""
    unowned: tuple[UnownedKind, ...] = ()
    """Kinds of unowned objects that are changed because of a resource. The watcher gets the rights to change them."""
    destinations: Callable[[str], Collection[str]] | None = None
    """Namespaces that deployments may use because of a spec (JSON text); none if it is invalid."""
    is_repeat: Callable[[PlainResource, PlainResource], bool] | None = None
    """Whether the second row says nothing new compared with the first, known one, although their texts differ."""
    check_reasons: CheckReasons | None = None
    compile_status: Callable[[StatusInputs], str] | None = None
    """The status as canonical JSON; ``previous`` if nothing has changed."""
    recalls_status: bool = False
    """Whether its status has something that follows from nothing else. Commands then carry the status, so that a lost
    database can recall it."""

    recalled_progress: Callable[[str, str, datetime], str] | None = None
    """From a row's progress, a recalled status (JSON text) and its time, the progress to store."""

    conditions: str = CONDITIONS
    """Member of the status that has the conditions."""
    own_status: frozenset[str] = frozenset()
    """Members of the status that are ours, if other controllers write others; empty: the whole status is ours. Other
    members of a compiled status are not written. A list is one member, whoever wrote its items."""

    def __post_init__(self) -> None:
        """Raises ValueError if the declarations contradict each other."""
        others = self.projection.status_members
        if self.is_dormant and (self.row is not PlainResource or self.accept_spec):
            raise ValueError(f"{self.name}: something follows from its resources, so they cannot be dormant")
        if others and self.row is not PlainResource:
            raise ValueError(f"{self.name}: a row of its own has no columns for a status that others write")
        if both := others & self.own_status:
            raise ValueError(f"{self.name}: of {sorted(both)}, which are projected, each write of ours would be news")
        if self.compile_status is not None and others and not self.own_status:
            raise ValueError(f"{self.name}: others write {sorted(others)} to its status; declare what is ours")

    @property
    def names_a_secret(self) -> bool:
        """Whether its resources name Secrets whose content goes to engines."""
        return self.reference is not None and bool(self.reference.secret_type)

    def referenced_by(self, spec: str) -> str:
        """The resource that a spec (JSON text as a user wrote it) names; empty if none."""
        if self.reference is None:
            return ""
        try:
            content: Any = orjson.loads(spec)
        except orjson.JSONDecodeError:
            return ""
        return text_at(content, self.reference.field).replace("\0", "")


@dataclass(frozen=True, kw_only=True, eq=False)
class DefinedKind(NamedKind):
    """A kind of our own API, with what its CRD and its page for users are made from."""

    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    """Resources of tenants have a namespace. Operators write resources without one."""
    description: str
    purpose: str
    """Its purpose, in the list of all kinds."""
    example: Path
    """YAML that users can copy."""
    rules: tuple[Rule, ...] = ()
    """Rules about the whole object, that is, its name. Rules about its spec are in the model."""
    spec: type[ApiModel]
    status: type[ApiModel] | None
    """None: it has neither a status nor the subresource."""
    columns: tuple[Column, ...]
    """Columns besides ``AGE``, which all kinds have."""
    short_names: tuple[str, ...] = ()
    """Short forms of the plural for ``kubectl``."""
    waits: tuple[WaitExample, ...] = ()
    catalogue: tuple[Entry, ...]
    """Every condition that it may have, in the order of its page."""

    @property
    def page(self) -> str:
        """Name of its page in the documentation for users, without the suffix."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignKind(Kind):
    """A kind of another service, which owns its CRD and its status. We read what we declare, and write no status.

    Its CRD may come after us, go, or never exist. Then there are no such resources, and everything else works.
    """

    purpose: str
    """Its purpose, and what of it counts, in the list of these kinds."""

    def __post_init__(self) -> None:
        """Raises ValueError if a status would be written."""
        super().__post_init__()
        if self.compile_status is not None:
            raise ValueError(f"{self.name}: its status is another service's")


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorKind(DefinedKind):
    """A kind that operators write, without a namespace, and that tenants' resources name.

    The planner does not store it.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomKind(Kind, DefinedKind):
    """A kind of our own API that is followed."""

    def __post_init__(self) -> None:
        """Raises ValueError if the declarations contradict each other, or name missing members of the status."""
        Kind.__post_init__(self)
        fields = self.status.model_fields if self.status is not None else {}
        members = {field.alias or name for name, field in fields.items()}
        if unknown := (self.projection.status_members | self.own_status) - members:
            raise ValueError(f"{self.name}: its status has no {sorted(unknown)}")
