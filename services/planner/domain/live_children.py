"""Live objects that have the names of child objects. Their kinds are followed, so the tenant's own rows show them.

Of Secrets only those of our types are followed; every copied Secret has such a type. If a Secret of another type has
the name of a copy, the ManagedEnvironment that names it shows that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from services.common.api_resource import SECRET
from services.common.messages import ChildKind, UnownedKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET, MANAGED_ENVIRONMENT
from services.kinds.shared.child_objects import LiveChild
from services.kinds.shared.projection import NO_OWNER, controller_of, labels_of, metadata_of
from services.kinds.shared.resource import PlainResource
from services.planner.domain.indexed_rows import differing
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import ChildKey
from services.planner.rows.tenants import ResourceName

FOLLOWED = {kind.value: kind.value for kind in (*ChildKind, *UnownedKind)} | {ChildKind.SECRET_COPY.value: SECRET.kind}
"""For each kind of child objects, the kind by which the watcher reports them."""
CHILD_KINDS = {followed: kind for kind, followed in FOLLOWED.items()}

OTHER_SECRET = LiveChild(uid="", resource_version="", deleting=False, spec=None, controller=NO_OWNER)
"""A Secret that is not followed, and so is no copy of ours."""
NOT_ACCEPTED = "{}"
"""Stands for a spec that is not valid, or too long. We make no such spec."""


class LiveChildren(NamedTuple):
    """The live objects with given names."""

    present: Mapping[ChildKey, LiveChild]
    gone: frozenset[ChildKey]
    """Names of objects that went since the state that this is compared with."""


def live_children(state: TenantState, keys: Collection[ChildKey], before: TenantState) -> LiveChildren:
    """The live objects with these names, and the names of those that are gone since ``before``."""
    present, gone = {}, set()
    for (kind, name), incarnations in state.ids_named({reported_as(key) for key in keys}).items():
        key = (CHILD_KINDS[kind], name)
        for known in map(state.find, incarnations):
            if known is not None and known.present:
                present[key] = _live(known)
            elif known is not None and _was_there(before, known.id):
                gone.add(key)
    for key in (key for key in keys if key[0] == ChildKind.SECRET_COPY and key not in present):
        if _is_of_another_type(state, key):
            present[key] = OTHER_SECRET
        elif _is_of_another_type(before, key):
            gone.add(key)
    return LiveChildren(present, frozenset(gone))


def _is_of_another_type(state: TenantState, copy: ChildKey) -> bool:
    """Whether a Secret with the name of a copy has a type that is not followed."""
    return any(
        each.present and each.refers_to == copy[1] and each.secret_type not in {"", ENVIRONMENT_SECRET}
        for each in state.plain_resources_of_kind(MANAGED_ENVIRONMENT.kind).values()
    )


def reported_as(key: ChildKey) -> ResourceName:
    """The kind and name by which a watcher reports a live object."""
    kind, name = key
    return (FOLLOWED[kind], name)


def children_differing(state: TenantState, before: TenantState) -> Iterator[ChildKey]:
    """Names of child objects whose live object differs from that in ``before``."""
    ids = (*differing(state.deployments, before.deployments), *differing(state.plain_resources, before.plain_resources))
    for known in map(state.find, ids):
        if known is not None:
            yield from (key for key in _keys_of(known) if key in state.child_objects)


def _keys_of(known: Deployment | PlainResource) -> Iterator[ChildKey]:
    """The key of the resource itself, and that of the Secret that it names."""
    kind = GITOPS_DEPLOYMENT.kind if isinstance(known, Deployment) else known.kind
    yield (CHILD_KINDS.get(kind, ""), known.name)
    if isinstance(known, PlainResource) and kind == MANAGED_ENVIRONMENT.kind:
        yield (ChildKind.SECRET_COPY, known.refers_to)


def _was_there(before: TenantState, subject: UUID) -> bool:
    """Whether the object existed before the batch, or came within it."""
    known = before.find(subject)
    return known is None or known.present


def _live(known: Deployment | PlainResource) -> LiveChild:
    live = LiveChild(known.uid, known.resource_version, known.deleting, _spec(known))
    if isinstance(known, Deployment):
        metadata = known.metadata
        return replace(live, labels=labels_of(metadata), controller=controller_of(metadata)) if metadata else live
    if known.metadata_omitted:
        return replace(live, is_omitted=True)
    if not known.metadata:
        return live
    meta = metadata_of(known)
    return replace(
        live,
        labels=meta.labels if "labels" in meta.declared else None,
        annotations=meta.annotations if "annotations" in meta.declared else None,
        finalizers=meta.finalizers if "finalizers" in meta.declared else None,
        controller=controller_of(known.metadata),
    )


def _spec(known: Deployment | PlainResource) -> str | None:
    """The spec as it was written; None for a Secret, whose content is sealed."""
    if isinstance(known, Deployment):
        return NOT_ACCEPTED if known.error else known.pending_spec or known.spec
    if known.kind == SECRET.kind:
        return None
    return NOT_ACCEPTED if known.omitted else known.spec
