"""The closed list of child objects: which kinds of rows a watcher applies, and as what kind of object."""

from __future__ import annotations

from collections.abc import Mapping

from services.common.kubernetes import SECRET, ApiResource
from services.common.messages import ChildKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import Registry

CHILD_RESOURCES: Mapping[str, ApiResource] = {
    ChildKind.DEPLOYMENT: GITOPS_DEPLOYMENT,
    ChildKind.MANAGED_ENVIRONMENT: MANAGED_ENVIRONMENT,
    ChildKind.SECRET_COPY: SECRET,
}


def made_resources(registry: Registry) -> frozenset[ApiResource]:
    """What the watcher makes for resources of these kinds; nothing else is it given the right to make."""
    return frozenset(CHILD_RESOURCES[child] for kind in registry.kinds for child in kind.children)
