"""Manifests that follow from the kinds: CRDs, and what the watcher and tenants may do. `make generate` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath

import orjson
import yaml

from services.kinds.registry import Registry
from services.kinds.shared.definition import custom_resource_definition
from services.watcher.followed_kinds import access_to, followed, looked_up
from services.watcher.unowned_kinds import UnownedResource

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
    """The rules of the watcher's ClusterRole about what it follows, YAML: equal rights together."""
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in (*followed(registry), *looked_up(registry)):
        verbs: dict[str, list[str]] = {}
        for verb, subresource in access_to(kind).rights:
            verbs.setdefault(subresource, []).append(verb)
        for subresource, allowed in verbs.items():
            name = "/".join(filter(None, (kind.resource.plural, subresource)))
            resources.setdefault((kind.resource.group, tuple(allowed)), []).append(name)
    return "".join(_rule(group, verbs, names) for (group, verbs), names in resources.items())


def confined_resources(registry: Registry) -> str:
    """Which requests the admission policy of the watcher is asked about, YAML: every change that it has a right to."""
    kinds = [kind for kind in followed(registry) if kind.has_status or kind.is_made or kind.unowned is not None]
    groups = dict.fromkeys(kind.resource.group for kind in kinds)
    return "".join(_confined(group) for group in groups)


def _confined(group: str) -> str:
    """Of the core group the watcher changes nothing but Secrets."""
    resources = '"*/*"' if group else "secrets"
    return (
        f"      - apiGroups: [{_group(group)}]\n"
        '        apiVersions: ["*"]\n'
        "        operations: [CREATE, UPDATE, DELETE]\n"
        f"        resources: [{resources}]\n"
        '        scope: "*"\n'
    )


def object_variables(registry: Registry) -> str:
    """What that policy has to know of objects, YAML: of children, and what may be done with those that are none."""
    made = [f"{kind.resource.group}/{kind.resource.plural}" for kind in followed(registry) if kind.is_made]
    owners = [f"{kind.resource.api_version}/{kind.name}" for kind in registry.kinds if kind.children]
    lists = {"children": made, "owners": owners, "copyTypes": [*registry.secret_types]}
    unowned = {
        f"{kind.resource.group}/{kind.resource.plural}": _changes_of(kind.unowned)
        for kind in followed(registry)
        if kind.unowned is not None
    }
    return "".join(
        f"    - name: {name}\n      expression: '{orjson.dumps(each).decode()}'\n"
        for name, each in (*lists.items(), ("unowned", {"": _changes_of(None), **unowned}))
    )


def _changes_of(unowned: UnownedResource | None) -> dict[str, list[str]]:
    """In the words of the policy; None: nothing may be changed."""
    names = ("spec", "labels", "annotations", "finalizers")
    listed = {name: sorted(getattr(unowned, name)) if unowned is not None else [] for name in names}
    verbs = sorted(verb.upper() for verb in unowned.verbs) if unowned is not None else []
    return {"operations": verbs} | listed


WATCHER: Mapping[str, Callable[[Registry], str]] = {
    "kinds": watcher_rules,
    "confined": confined_resources,
    "children": object_variables,
}
"""The parts of k8s/rbac/watcher.yaml that follow from the kinds."""


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


def _rule(group: str, verbs: Sequence[str], names: Sequence[str]) -> str:
    listed = "".join(f"      - {name}\n" for name in names)
    return f"  - apiGroups: [{_group(group)}]\n    resources:\n{listed}    verbs: [{', '.join(verbs)}]\n"


def _group(name: str) -> str:
    """The core group has no name."""
    return name or '""'
