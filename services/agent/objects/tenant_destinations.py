"""Where an Application or AppProject may deploy: never to the platform's part of the engine's own cluster. Pure.

The planner compiles no other destinations. Without this check, anybody who can write compiled rows could have Argo CD
start a pod next to our keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from services.agent.objects.desired_objects import mapping
from services.common.argocd_names import LOCAL_CLUSTER
from services.common.errors import Permanent, RefusedInput
from services.common.kubernetes import APP_PROJECT, Manifest
from services.kinds.gitops_deployment.catalogue import PLATFORM_NAMESPACE

IsPlatform = Callable[[str], bool]
"""Whether a namespace of the engine's own cluster is the platform's."""

FIELDS = {"name", "namespace"}
_PLAIN = re.compile(r"[a-z0-9.-]*", re.ASCII)
"""Names that no part of Argo CD takes for a pattern."""


def require_tenants_destinations(manifest: Manifest, is_platform: IsPlatform) -> None:
    """Raises Permanent unless each destination is a tenant's namespace, or in a tenant's own cluster.

    The text is for the user if it is about a namespace that may have a GitOpsDeployment.
    """
    spec = mapping(manifest, "spec")
    if manifest["kind"] == APP_PROJECT.kind:
        for each in _listed(spec):
            if _is_platforms(each, is_platform):
                raise Permanent(f"an AppProject may not list {_described(each)}: the namespace is the platform's")
    elif _is_platforms(mapping(spec, "destination"), is_platform):
        raise RefusedInput(PLATFORM_NAMESPACE.text())


def _listed(spec: Manifest) -> Iterator[Manifest]:
    destinations = spec.get("destinations") or []
    if not isinstance(destinations, list) or not all(isinstance(each, dict) for each in destinations):
        raise Permanent("the manifest's destinations are no list of mappings")
    yield from destinations


def _is_platforms(destination: Manifest, is_platform: IsPlatform) -> bool:
    return _is_local(destination) and is_platform(_namespace(destination))


def _is_local(destination: Manifest) -> bool:
    """Whether the destination is in the engine's own cluster. Raises Permanent if that is not obvious."""
    name: Any = destination.get("name", "")
    if not destination.keys() <= FIELDS or not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise Permanent(f"a cluster is named by its plain name alone, not as in {_described(destination)}")
    return name == LOCAL_CLUSTER


def _namespace(destination: Manifest) -> str:
    """The destination's namespace. Raises Permanent if there is none, or if it is a pattern."""
    namespace: Any = destination.get("namespace")
    if not isinstance(namespace, str) or not namespace or not _PLAIN.fullmatch(namespace):
        raise Permanent(f"a namespace of the engine's own cluster is named, not as in {_described(destination)}")
    return namespace


def _described(destination: Manifest) -> str:
    return f"destination {destination}"[:200]
