"""RBAC rules that Argo CD needs on a tenant's cluster. Pure.

namespaces
    Everything in these namespaces, nothing else. Argo CD writes there whatever a tenant's repository holds, and can
    grant in a Role only what it may do itself.
the whole cluster
    Read everything, write what lives in namespaces, create namespaces. Argo CD lists and watches every kind and stops
    if it may not; CreateNamespace=true makes namespaces.
clusterResources, with namespaces or without
    Everything: an account that may write ClusterRoleBindings can give itself every right.

RBAC cannot say "all that lives in namespaces", so these kinds are asked of the cluster, again at every check: a kind
that is new becomes writable with the next one. Such an account cannot write ClusterRoles, webhooks,
CustomResourceDefinitions, nodes or volumes. That limits accidents and tenants' manifests, not somebody who has stolen
the token: that person may read every Secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

EVERYTHING: Manifest = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
READ_EVERYTHING: Manifest = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
CREATE_NAMESPACES: Manifest = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}


def whole_cluster(groups: Sequence[tuple[str, Sequence[str]]]) -> list[Manifest]:
    """Rules for a whole cluster without its cluster-scoped resources; ``groups``: namespaced resources by API group."""
    written = [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": ["*"]}
        for group, resources in sorted(groups)
        if resources
    ]
    return [READ_EVERYTHING, *written, CREATE_NAMESPACES]


def namespaced_resources(discovery: Manifest) -> list[tuple[str, list[str]]]:
    """Resources and sub-resources that live in namespaces, by API group, of an APIGroupDiscoveryList."""
    groups: list[tuple[str, list[str]]] = []
    for item in dicts_of(discovery.get("items")):
        resources: set[str] = set()
        for version in dicts_of(item.get("versions")):
            for resource in dicts_of(version.get("resources")):
                if resource.get("scope") == "Namespaced":
                    resources |= _names(resource)
        groups.append((text_of(dict_of(item.get("metadata")).get("name")), sorted(resources)))
    return groups


def _names(resource: Manifest) -> set[str]:
    name = resource.get("resource")
    if not isinstance(name, str) or not name or "*" in name:
        return set()
    parts = (each.get("subresource") for each in dicts_of(resource.get("subresources")))
    return {name, *(f"{name}/{part}" for part in parts if isinstance(part, str) and part and "*" not in part)}
