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
    """Field selectors of what is followed."""
    metadata_only: bool = False
    """Whether no more than the metadata is followed, and each resource is read when something is said of it."""
    is_foreign: bool = False
    """Whether another service owns the kind: its CRD may be missing, and then there are no such resources."""
    has_status: bool = True
    """Whether we write one."""
    is_made: bool = False
    """Whether we make, change and delete some of them: the children of other resources."""
    unowned: UnownedResource | None = None
    """What we do with those that are no children, besides writing a status; None: nothing."""
    reference: str = ""
    """The part of the spec that names another resource of the same namespace, with dots between the names of fields."""
    refers_to: ApiResource | None = None
    """Of which kind that is."""
    secret_type: str = ""
    """If it is a Secret: of which type it has to be."""
    secret_use: Callable[[str], SecretUse | None] | None = None
    """What a resource uses that Secret for: see :class:`Reference`."""
    copied_secret: str = ""
    """The part of the spec that names a Secret of any type, whose version is sent, too: see :class:`Kind`."""
    projection: Projection = NOTHING
    """What of its metadata and status is sent besides the spec."""
    own_status: frozenset[str] = frozenset()
    """Members of the status that we write, if other controllers write others; empty: all of it."""
    recalls_status: bool = False
    """Whether commands carry the status that it has."""

    @property
    def name(self) -> str:
        """As manifests, commands and metrics say it."""
        return self.resource.kind

    @property
    def names_secrets(self) -> bool:
        """Whether commands tell of a Secret that a resource names."""
        return bool(self.copied_secret) or self.refers_to is SECRET

    def copied_secret_of(self, spec: str) -> str:
        """Name of the Secret whose version is sent with this spec, JSON text; "" if there is none."""
        return text_at(orjson.loads(spec), self.copied_secret) if self.copied_secret else ""

    def reference_of(self, manifest: Manifest) -> str:
        """Name of what a resource refers to, "" if nothing. The spec may be anything a user wrote."""
        return text_at(manifest.get("spec"), self.reference) if self.reference else ""


def followed(registry: Registry) -> tuple[FollowedKind, ...]:
    """How each kind of ``registry`` is followed: of Secrets only those that are made for us."""
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
"""Those of which a watch shows what is sent: all but Secrets."""
(SECRETS,) = (kind for kind in KINDS if kind.resource == SECRET)


def looked_up(registry: Registry) -> tuple[FollowedKind, ...]:
    """Kinds of which commands carry what resources of followed kinds name; nothing is sent of themselves."""
    return tuple(FollowedKind(kind.resource, has_status=False) for kind in registry.looked_up)


LOOKED_UP = looked_up(REGISTRY)


def by_name(kinds: Iterable[FollowedKind]) -> Mapping[str, FollowedKind]:
    """``kinds`` as rows name them."""
    return {kind.name: kind for kind in kinds}


BY_NAME = by_name(CUSTOM_KINDS)
"""Those that have a status for us to write."""


READING = ("get", "list", "watch")
WRITING = ("patch", "patch/status")
MAKING = ("create", "patch", "delete")
LEADING = ("get", "create", "patch")


def verbs_on(kind: FollowedKind) -> tuple[str, ...]:
    """Every call that is made to resources of ``kind``, those to their status as ``patch/status``."""
    changing = [verb for verb in MAKING if kind.unowned is not None and verb in {"patch", *kind.unowned.verbs}]
    making, writing = MAKING if kind.is_made else changing, WRITING if kind.has_status else ()
    return tuple(dict.fromkeys((*READING, *making, *writing)))


def access_to(kind: FollowedKind) -> Access:
    """What is done with resources of ``kind``; those without a status of ours are only read, unless some are made."""
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
"""What is done with namespaces: each is read, to tell which one of its name it is."""


def access_to_lease(namespace: str) -> Access:
    """What is done with the lease of those who may lead."""
    return Access(
        LEASE,
        LEADING,
        remedy=f"grant the watcher's user a Role in namespace {namespace} for apiGroup {LEASE.group}: "
        f"{', '.join(LEADING)} on {LEASE.plural}, or set LEADER_ELECTION=false",
        not_served="set LEADER_ELECTION=false",
        namespace=namespace,
        listed=(),
    )
