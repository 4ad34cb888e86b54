"""The closed table of kinds an agent may write. A row of any other kind is refused, never applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from services.common.kube import APP_PROJECT, APPLICATION, Resource

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gitops-service"
SELECTOR = f"{MANAGED_BY}={MANAGER}"
FIELD_MANAGER = "gitops-service-agent"

CASCADE_FINALIZER = "resources-finalizer.argocd.argoproj.io/background"
"""Makes Argo CD delete what an Application deployed, in the background, before the Application goes."""


@dataclass(frozen=True, slots=True)
class ManagedKind:
    """One kind and which part of it is ours."""

    resource: Resource
    owned_spec: tuple[str, ...]
    """Fields of the spec that are ours, whole; the others are the engine's or an operator's. Empty: all of it."""
    cascade_finalizer: str = ""
    """Put on before deletion, so that what was deployed goes too."""
    propagation: Literal["Background", "Foreground"] = "Background"
    reports_status: bool = False


KINDS: Mapping[str, ManagedKind] = {
    APPLICATION.kind: ManagedKind(
        APPLICATION,
        owned_spec=("source", "destination", "project", "syncPolicy"),
        cascade_finalizer=CASCADE_FINALIZER,
        propagation="Foreground",
        reports_status=True,
    ),
    # All of a project's spec is ours: a field somebody adds would widen what its tenant may do.
    APP_PROJECT.kind: ManagedKind(APP_PROJECT, owned_spec=()),
}
