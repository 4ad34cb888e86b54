"""What a kind declares of itself. Each folder makes one object of these classes; the registry lists them.

A :class:`DefinedKind` has a CRD and a page, a :class:`Kind` is followed and planned, a :class:`CustomKind` is both. A
:class:`ForeignKind` is one of another service that is followed.

Everything that is by kind is derived from it: the CRD and its page, what the watcher follows and may do, quotas, the
audit, and which rules the planner calls. A hook is a pure function of values.
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
    """Shown with ``-o wide`` only."""


AGE = Column("Age", ".metadata.creationTimestamp", "date")
"""A CRD with columns of its own loses the one that the API server has for all others."""

CATEGORY = "gitops"
"""``kubectl get gitops`` lists resources of all kinds."""


@dataclass(frozen=True, slots=True)
class WaitExample:
    """What users can wait for by ``kubectl wait``."""

    until: str
    """When it ends, as a sentence goes on after "until"."""
    flag: str
    """As ``--for`` takes it."""
    minutes: int = 5
    """How long a script had better wait."""


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
    """Type of the Secret that it names, if only one of that type can be used. Secrets of these types are followed.

    Of a Secret of another type commands tell the type, each time that one is sent.
    """
    refusals: Mapping[str, tuple[str, str, str]] = dataclasses.field(default_factory=dict)
    """What users are told if that Secret cannot be used: the condition for each ``Defect`` of ``secret/rules.py``.

    A message may have parts in braces: secret, type, detail, quota.
    """
    secret_use: Callable[[str], SecretUse | None] | None = None
    """What a resource with this spec, JSON text as a user wrote it, uses that Secret for; None if that is not valid.

    Its content goes nowhere else: agents refuse what no watcher has sealed for this use.
    """


@dataclass(frozen=True, slots=True)
class CheckReasons:
    """What an agent's check of a resource can come to, apart from what is wrong with it."""

    succeeded: str
    not_applied: str
    """The engine's API server refuses what was made from it."""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """All that the status of a resource follows from."""

    resource: PlainResource
    own: Any
    """The row that only this kind has; None if it has none."""
    check: Check | None
    """Newest result of an agent, for whatever manifest it was."""
    digest: str | None
    """Of the manifest that an engine shall hold now; None if there is none."""
    previous: str
    """The status compiled last for this incarnation, ``"{}"`` if none was."""
    at: datetime
    """When that happened which may change it."""
    limits: Limits
    target_exists: bool = True
    """Whether there is what a resource waits for; False only if it waits for a resource that it names."""
    deployments: tuple[ChildDeployment, ...] = ()
    """Child objects that are GitOpsDeployments, sorted by name."""


ConnectionsOf = Callable[[ConnectionInputs], tuple[Connection, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedKind:
    """What all kinds have."""

    resource: ApiResource

    @property
    def name(self) -> str:
        """As manifests, commands and metrics say it."""
        return self.resource.kind

    @property
    def plural(self) -> str:
        """As paths and ``kubectl`` say it."""
        return self.resource.plural


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind(NamedKind):
    """A kind that the watcher follows and the planner has rows of. Hooks that are None: it has nothing of the sort."""

    default_quota: int
    """How many of them a tenant may have, unless operators say otherwise."""
    counted: str = ""
    """Which of them count for that, as a sentence goes on after their plural; empty: all."""
    is_dormant: bool = False
    """There may be any number of its resources, and most of them matter to nobody: a planner has only those at hand
    that others name. Nothing follows from them by themselves, but what their status says of the quota."""
    row: type[Incarnation] = PlainResource
    """What the planner keeps of it. Kinds with a row of their own have their own steps in a plan."""
    reference: Reference | None = None
    copied_secret: str = ""
    """Path in the spec of the name of a Secret whose content others copy: commands tell its type and its version, and
    a resource is sent again when they change. Of any type; ``reference`` names another kind of object then."""
    projection: Projection = NOTHING
    """What of a resource its rules see; of those with a row of their own no status."""
    finalizer: str = ""
    """Users put it on a resource that shall stay until what it asked for is gone."""
    recall: Callable[[str], str] | None = None
    """What ``PlainResource.accepted`` is of a resource that is new to the planner, from the status that it recalls."""
    audited: bool = False
    """Each change of a resource is an operation, whose outcome is recorded."""
    concluded: Callable[[PlainResource], tuple[bool, str] | None] | None = None
    """Whether what a resource asks for was done once has succeeded, and what is recorded of that; None: it goes on."""
    accept_spec: Callable[[PlainResource, AddressPolicy, Limits], ApiModel] | None = None
    """The spec of a resource. Raises Refused."""
    connections: ConnectionsOf | None = None
    """What an engine shall hold because of an accepted spec. The planner compiles it, owns it and removes it."""
    children: tuple[ChildKind, ...] = ()
    """Of which kinds its resources want child objects: the watcher gets the rights to make these."""
    unowned: tuple[UnownedKind, ...] = ()
    """Of which kinds objects are changed because of a resource, without being its children: likewise."""
    destinations: Callable[[str], Collection[str]] | None = None
    """Namespaces that deployments may go to because of a spec, JSON text; none if it is not valid."""
    is_repeat: Callable[[PlainResource, PlainResource], bool] | None = None
    """Whether the second row says nothing that the first, known one does not, though their texts differ."""
    check_reasons: CheckReasons | None = None
    compile_status: Callable[[StatusInputs], str] | None = None
    """Canonical JSON of the status; ``previous`` if nothing has changed."""
    recalls_status: bool = False
    """Its status holds what follows from nothing else: commands carry it, so that a lost database is told of it."""

    recalled_progress: Callable[[str, str, datetime], str] | None = None
    """From the progress that a row has, such a status, JSON text, and the time at which that was told: the progress."""

    conditions: str = CONDITIONS
    """Member of the status that has its conditions."""
    own_status: frozenset[str] = frozenset()
    """Members of the status that are ours, if other controllers write others; empty: the whole status is ours.

    No other member of a compiled status is written. A list is one member, whoever wrote its items.
    """

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
        """Name of the resource that a spec, JSON text as a user wrote it, names; empty if it names none."""
        if self.reference is None:
            return ""
        try:
            content: Any = orjson.loads(spec)
        except orjson.JSONDecodeError:
            return ""
        return text_at(content, self.reference.field).replace("\0", "")


@dataclass(frozen=True, kw_only=True, eq=False)
class DefinedKind(NamedKind):
    """A kind of our own API: what its CRD and its page for users are made from."""

    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    """Resources of tenants have a namespace. What belongs to no namespace is written by operators."""
    description: str
    purpose: str
    """What it is for, in the list of all kinds."""
    example: Path
    """YAML that users can copy."""
    rules: tuple[Rule, ...] = ()
    """About the whole object, which is its name; those about its spec stand in the model."""
    spec: type[ApiModel]
    status: type[ApiModel] | None
    """None: it has none, and no subresource for one."""
    columns: tuple[Column, ...]
    """Besides ``AGE``, which all have."""
    short_names: tuple[str, ...] = ()
    """As ``kubectl`` takes them for the plural."""
    waits: tuple[WaitExample, ...] = ()
    catalogue: tuple[Entry, ...]
    """Every condition it can have, in the order in which its page lists them."""

    @property
    def page(self) -> str:
        """Name of its page in the documentation for users, without the ending."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignKind(Kind):
    """A kind of another service, which owns its CRD and its status: we read what we declare, and write no status.

    Its CRD may come after us, go, or never be there. Then there are no such resources, and all else goes on.
    """

    purpose: str
    """What it is, and what of it counts, in the list of these kinds."""

    def __post_init__(self) -> None:
        """Raises ValueError if a status is to be written."""
        super().__post_init__()
        if self.compile_status is not None:
            raise ValueError(f"{self.name}: its status is another service's")


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorKind(DefinedKind):
    """A kind that operators write, in no namespace, and that tenants' resources name: the planner has no rows of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomKind(Kind, DefinedKind):
    """A kind of our own API that is followed."""

    def __post_init__(self) -> None:
        """Raises ValueError likewise, and if its status has no such member as is declared."""
        Kind.__post_init__(self)
        fields = self.status.model_fields if self.status is not None else {}
        members = {field.alias or name for name, field in fields.items()}
        if unknown := (self.projection.status_members | self.own_status) - members:
            raise ValueError(f"{self.name}: its status has no {sorted(unknown)}")
