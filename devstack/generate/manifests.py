"""Manifests that follow from the kinds: CRDs, and what the watcher and tenants may do. `make generate` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

import yaml

from services.kinds.registry import Registry
from services.kinds.shared.definition import custom_resource_definition
from services.watcher.followed_kinds import FollowedKind, access_to, followed

HEADER = "# Generated from services/kinds by `make generate`; do not edit.\n"
TENANTS = {"view": ("get", "list", "watch"), "edit": ("create", "update", "patch", "delete", "deletecollection")}
"""Verbs of each of their roles, in k8s/rbac/tenants.yaml."""
KUSTOMIZATION = "# Not kustomization.yaml: `gitopsctl crds apply` takes every *.yaml of this folder for a CRD.\n"


def crd_files(registry: Registry) -> Iterator[tuple[PurePath, str]]:
    """Name and text of each file in k8s/crds."""
    for kind in registry.defined:
        manifest = yaml.safe_dump(custom_resource_definition(kind), sort_keys=False, width=120)
        yield PurePath(f"{kind.plural}.yaml"), HEADER + manifest
    listed = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(f"{kind.plural}.yaml" for kind in registry.defined),
    }
    yield PurePath("Kustomization"), HEADER + KUSTOMIZATION + yaml.safe_dump(listed, sort_keys=False)


def watcher_rules(registry: Registry) -> str:
    """The rules of the watcher's ClusterRole about custom resources, YAML."""
    kinds = [kind for kind in followed(registry) if kind.has_status]
    groups = dict.fromkeys(kind.resource.group for kind in kinds)
    of_group = [(group, [kind for kind in kinds if kind.resource.group == group]) for group in groups]
    return "".join(_rule(group, members, part) for group, members in of_group for part in ("", "status"))


def tenant_rules(registry: Registry, verbs: Sequence[str]) -> str:
    """The rules of a tenants' ClusterRole about custom resources, YAML."""
    kinds = [kind for kind in registry.defined if kind.scope == "Namespaced"]
    groups = dict.fromkeys(kind.resource.group for kind in kinds)
    return "".join(
        f"  - apiGroups: [{group}]\n    resources:\n"
        + "".join(f"      - {kind.plural}\n" for kind in kinds if kind.resource.group == group)
        + f"    verbs: [{', '.join(verbs)}]\n"
        for group in groups
    )


def _rule(group: str, kinds: Sequence[FollowedKind], subresource: str) -> str:
    verbs = dict.fromkeys(verb for kind in kinds for verb, of in access_to(kind).rights if of == subresource)
    names = ("/".join(filter(None, (kind.resource.plural, subresource))) for kind in kinds)
    listed = "".join(f"      - {name}\n" for name in names)
    return f"  - apiGroups: [{group}]\n    resources:\n{listed}    verbs: [{', '.join(verbs)}]\n"
