"""The closed list of child objects: which kinds of rows a watcher applies, as what kind of object, with which fields.

A release that adds a field here has its watchers upgraded before its planners, which write it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from services.common.kubernetes import SECRET, ApiResource
from services.common.messages import ChildKind
from services.kinds.environment.rules import SECRET_LABEL
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import Registry
from services.kinds.shared.api_group import is_appstudio_label


@dataclass(frozen=True, slots=True)
class ChildResource:
    """What may be said of child objects of one kind. None of them has an annotation of ours."""

    resource: ApiResource
    spec: frozenset[str]
    """Fields, by their paths. Of a copied Secret what the row says of it: what it holds is its source's."""
    is_label: Callable[[str], bool] = lambda _: False
    """Whether a label with this key may be put on."""


CHILD_RESOURCES: Mapping[str, ChildResource] = {
    ChildKind.DEPLOYMENT: ChildResource(
        GITOPS_DEPLOYMENT,
        frozenset(
            {
                "source.repoURL",
                "source.path",
                "source.targetRevision",
                "destination.environment",
                "destination.namespace",
                "syncPolicy.syncOptions",
                "type",
            }
        ),
        is_appstudio_label,
    ),
    ChildKind.MANAGED_ENVIRONMENT: ChildResource(
        MANAGED_ENVIRONMENT,
        frozenset(
            {
                "apiURL",
                "credentialsSecret",
                "allowInsecureSkipTLSVerify",
                "createNewServiceAccount",
                "namespaces",
                "clusterResources",
            }
        ),
    ),
    ChildKind.SECRET_COPY: ChildResource(SECRET, frozenset({"from", "type", "version"}), SECRET_LABEL.__eq__),
}


def made_resources(registry: Registry) -> frozenset[ApiResource]:
    """What the watcher makes for resources of these kinds; nothing else is it given the right to make."""
    return frozenset(CHILD_RESOURCES[child].resource for kind in registry.kinds for child in kind.children)
