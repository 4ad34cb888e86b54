"""How the watcher follows each kind of ``services/kinds/registry.py``, and the rights this takes.

A new kind needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import orjson

from services.common.json_values import text_at
from services.common.kubernetes import LEASE, NAMESPACE, SECRET, Access, ApiResource, Manifest
from services.common.secret_use import SecretUse
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.kind import Kind
from services.kinds.shared.projection import NOTHING, Projection
from services.watcher.child_kinds import made_resources
from services.watcher.unowned_kinds import UnownedResource, changed_resources


@dataclass(frozen=True, slots=True)
class FollowedKind:
    """How one kind is followed."""

    resource: ApiResource
    parts: tuple[str, ...] = ("",)
    """Field selectors that choose the resources to follow."""
    metadata_only: bool = False
    """Whether only the metadata is followed. Each resource is then read when a command about it is built."""
    is_foreign: bool = False
    """Whether another service owns the kind. Its CRD may be missing; then there are no such resources."""
    has_status: bool = True
    """Whether the watcher writes its status."""
    is_made: bool = False
    """Whether the watcher creates, changes and deletes some of the resources: children of other resources."""
    unowned: UnownedResource | None = None
    """What the watcher does with resources that are not children, besides writing a status; None: nothing."""
    reference: str = ""
    """Path of the field of the spec that names another resource of the same namespace, with dots."""
    refers_to: ApiResource | None = None
    """The kind of that other resource."""
    secret_type: str = ""
    """The type that the other resource must have, if it is a Secret."""
    secret_use: Callable[[str], SecretUse | None] | None = None
    """What a resource uses that Secret for: see :class:`Reference`."""
    copied_secret: str = ""
    """Path of the field of the spec that names a Secret of any type, whose version is also sent: see :class:`Kind`."""
    projection: Projection = NOTHING
    """Which parts of metadata and status are sent besides the spec."""
    own_status: frozenset[str] = frozenset()
    """Members of the status that we write, if other controllers write others; empty: we write all of it."""
    recalls_status: bool = False
    """Whether commands carry the resource's current status."""

    @property
    def name(self) -> str:
        """The kind's name in manifests, commands and metrics."""
        return self.resource.kind

    @property
    def names_secrets(self) -> bool:
        """Whether commands describe a Secret that a resource names."""
        return bool(self.copied_secret) or self.refers_to is SECRET

    def copied_secret_of(self, spec: str) -> str:
        """Name of the Secret whose version is sent with this spec (JSON text); empty if there is none."""
        return text_at(orjson.loads(spec), self.copied_secret) if self.copied_secret else ""

    def reference_of(self, manifest: Manifest) -> str:
        """Name of the resource that ``manifest`` refers to, empty if none. The spec may be anything a user wrote."""
        return text_at(manifest.get("spec"), self.reference) if self.reference else ""


def followed(registry: Registry) -> tuple[FollowedKind, ...]:
    """How each kind of ``registry`` is followed. Of Secrets only the types made for us are followed."""
    made = made_resources(registry)
    unowned = {changed.resource: changed for changed in changed_resources(registry)}
    return tuple(
        replace(
            _followed(kind, registry),
            is_made=kind.resource in made,
            is_foreign=kind in registry.foreign,
            has_status=kind in registry.with_status,
            unowned=unowned.get(kind.resource),
        )
        for kind in registry.kinds
    )


def _followed(kind: Kind, registry: Registry) -> FollowedKind:
    if kind.resource == SECRET:
        types = tuple(f"{TYPE_IS}{each}" for each in registry.secret_types)
        return FollowedKind(SECRET, parts=types, metadata_only=True, projection=kind.projection)
    reference = kind.reference
    if reference is None:
        return FollowedKind(
            kind.resource,
            projection=kind.projection,
            own_status=kind.own_status,
            recalls_status=kind.recalls_status,
        )
    return FollowedKind(
        kind.resource,
        projection=kind.projection,
        own_status=kind.own_status,
        reference=reference.field,
        refers_to=reference.to,
        secret_type=reference.secret_type,
        secret_use=reference.secret_use,
        copied_secret=kind.copied_secret,
        recalls_status=kind.recalls_status,
    )


TYPE_IS = "type="
KINDS = followed(REGISTRY)
CUSTOM_KINDS = tuple(kind for kind in KINDS if kind.has_status)
FOREIGN_KINDS = tuple(kind for kind in KINDS if kind.is_foreign)
WATCHED_WHOLE = tuple(kind for kind in KINDS if not kind.metadata_only)
"""Kinds whose watch shows all that is sent: all but Secrets."""
(SECRETS,) = (kind for kind in KINDS if kind.resource == SECRET)


def looked_up(registry: Registry) -> tuple[FollowedKind, ...]:
    """Kinds whose resources are sent only inside commands about resources that name them."""
    return tuple(FollowedKind(kind.resource, has_status=False) for kind in registry.looked_up)


LOOKED_UP = looked_up(REGISTRY)


def by_name(kinds: Iterable[FollowedKind]) -> Mapping[str, FollowedKind]:
    """``kinds`` by the name that rows use."""
    return {kind.name: kind for kind in kinds}


BY_NAME = by_name(CUSTOM_KINDS)
"""Kinds whose status we write."""


READING = ("get", "list", "watch")
WRITING = ("patch", "patch/status")
MAKING = ("create", "patch", "delete")
LEADING = ("get", "create", "patch")


def verbs_on(kind: FollowedKind) -> tuple[str, ...]:
    """Every call that is made for resources of ``kind``; calls for their status are ``patch/status``."""
    changing = [verb for verb in MAKING if kind.unowned is not None and verb in {"patch", *kind.unowned.verbs}]
    making, writing = MAKING if kind.is_made else changing, WRITING if kind.has_status else ()
    return tuple(dict.fromkeys((*READING, *making, *writing)))


def access_to(kind: FollowedKind) -> Access:
    """The rights needed for ``kind``. Resources without a status of ours are only read, unless we create some."""
    plural, verbs = kind.resource.plural, verbs_on(kind)
    rights = f"{', '.join(verb for verb in verbs if '/' not in verb)} on {plural}"
    status = f" and patch on {plural}/status" if kind.has_status else ""
    return Access(
        kind.resource,
        verbs,
        remedy=f'grant the watcher\'s user a ClusterRole for apiGroup "{kind.resource.group}": {rights}{status}',
        not_served="run 'gitopsctl crds apply'",
        listed=kind.parts,
        metadata_only=kind.metadata_only,
        may_be_missing=kind.is_foreign,
    )


ACCESS_TO_NAMESPACES = Access(
    NAMESPACE,
    ("get",),
    remedy=f"grant the watcher's user a ClusterRole for the core apiGroup: get on {NAMESPACE.plural}",
    not_served="is this a Kubernetes API server?",
    listed=(),
)
"""The right to read namespaces, which tells different namespaces of one name apart."""


def access_to_lease(namespace: str) -> Access:
    """The rights on the lease of the watchers that may lead."""
    return Access(
        LEASE,
        LEADING,
        remedy=f"grant the watcher's user a Role in namespace {namespace} for apiGroup {LEASE.group}: "
        f"{', '.join(LEADING)} on {LEASE.plural}, or set LEADER_ELECTION=false",
        not_served="set LEADER_ELECTION=false",
        namespace=namespace,
        listed=(),
    )
