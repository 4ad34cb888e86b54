"""The closed tables of what an agent may write, and the key of the object that a row is about. Pure.

A row's kind says what is desired, an object's kind where it is stored: rows of kind ClusterSecret and RepositorySecret
become Secrets, a SyncOperation is a field of an Application. A row of any other kind is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from services.common.argocd_names import SECRET_TYPE_LABEL
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, ApiResource
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.ownership import MANAGED_BY, MANAGER

SELECTOR = f"{MANAGED_BY}={MANAGER}"

CASCADE_FINALIZER = "resources-finalizer.argocd.argoproj.io/background"
"""Makes Argo CD delete what an Application deployed, in the background, before the Application goes."""

HOOK_FINALIZERS = ("pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io")
"""Finalizers with which Argo CD waits for hooks of a repository when its Application is deleted; each may end with a
stage. Argo CD runs these hooks with its own rights, in any place that they name, and checks no AppProject
(GHSA-fmxq-cgp8-87wp)."""

VERBS = ("list", "watch", "get", "create", "patch", "delete")
"""Every call that an agent makes for objects of these kinds. It updates them by patches."""


@dataclass(frozen=True, slots=True)
class ManagedKind:
    """One kind of object, and which part of it is ours."""

    resource: ApiResource
    owned_spec: tuple[str, ...] = ()
    """Fields of the spec that are wholly ours; others belong to the engine or an operator. Empty: all of the spec."""
    cascade_finalizer: str = ""
    """Added before deletion, so that what was deployed is deleted, too."""
    hook_finalizers: tuple[str, ...] = ()
    """Removed before deletion, and whenever they appear during it, so that nothing of a repository is run then."""
    propagation: Literal["Background", "Foreground"] = "Background"
    reports_status: bool = False
    selector: str = SELECTOR
    """Selects what is watched, and may therefore be an orphan."""
    unchangeable: tuple[str, ...] = ()
    """Fields that the API server never lets change: an object that differs in one is deleted and created again."""


APPLICATION_KIND = ManagedKind(
    APPLICATION,
    owned_spec=("source", "destination", "project", "syncPolicy"),
    cascade_finalizer=CASCADE_FINALIZER,
    hook_finalizers=HOOK_FINALIZERS,
    propagation="Foreground",
    reports_status=True,
)
PROJECT_KIND = ManagedKind(APP_PROJECT)
"""All of a project's spec is ours: an added field would widen the tenant's rights."""
SECRET_KIND = ManagedKind(
    SECRET,
    # Only what Argo CD reads: another Secret with our label, from an installation perhaps, is no orphan.
    selector=f"{SELECTOR},{SECRET_TYPE_LABEL} in (cluster,repository)",
    unchangeable=("type", "immutable"),
)

KINDS: Mapping[str, ManagedKind] = {kind.resource.kind: kind for kind in (APPLICATION_KIND, PROJECT_KIND, SECRET_KIND)}
"""Watched objects, by kind."""

ROW_KINDS: Mapping[str, ManagedKind] = {
    RowKind.APPLICATION: APPLICATION_KIND,
    RowKind.APP_PROJECT: PROJECT_KIND,
    RowKind.CLUSTER_SECRET: SECRET_KIND,
    RowKind.REPOSITORY_SECRET: SECRET_KIND,
    RowKind.SYNC_OPERATION: APPLICATION_KIND,
}
"""Acceptable rows, with the kind of object that they become."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """One object of an instance, or the sync of an Application."""

    kind: str
    namespace: str
    name: str


def key_of(row: EngineResource) -> ObjectKey:
    """The object that ``row`` is about. A row of an unknown kind is about no existing object."""
    kind = ROW_KINDS.get(row.kind)
    if kind is None:
        return ObjectKey(f"unknown {row.kind}", row.namespace, row.name)
    object_kind = RowKind.SYNC_OPERATION if row.kind == RowKind.SYNC_OPERATION else kind.resource.kind
    return ObjectKey(object_kind, row.namespace, row.name)


def application_of(key: ObjectKey) -> ObjectKey:
    """The Application of a sync."""
    return ObjectKey(APPLICATION.kind, key.namespace, key.name)


def sync_of(key: ObjectKey) -> ObjectKey:
    """The sync of an Application, desired or not."""
    return ObjectKey(RowKind.SYNC_OPERATION, key.namespace, key.name)
