"""The closed list of child objects: which rows a watcher applies, as which kind of object, with which fields.

Watchers are upgraded before planners if a release adds a field here, because planners write it.
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
    """What a row may set on child objects of one kind. No child object has an annotation of ours."""

    resource: ApiResource
    spec: frozenset[str]
    """Paths of fields. For a copied Secret these are the members of the row; the content comes from the source."""
    is_label: Callable[[str], bool] = lambda _: False
    """Whether a row may set a label with this key."""


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
    """The kinds of objects that the watcher creates for these kinds of resources. It may create no others."""
    return frozenset(CHILD_RESOURCES[child].resource for kind in registry.kinds for child in kind.children)
