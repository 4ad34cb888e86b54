"""The contents of an installation: rendered manifests, put into the namespace of an instance.

``kustomize build`` makes a file of rendered manifests for one instance: Argo CD's manifests of a version, the settings
of ``k8s/argocd``, and the agents' rights. The file names one namespace, which is replaced by the instance's. Of objects
without a namespace it may contain only bindings of its accounts: the rest of a cluster is its operators'. Pure, but for
reading these files.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import yaml

from services.agent.instances.workload_requirements import Workloads, version_of
from services.common.argocd_names import CONTROLLER, REPO_SERVER
from services.common.argocd_versions import parsed_version
from services.common.errors import Permanent
from services.common.json_values import dict_of, dicts_of, digest, text_of
from services.common.kubernetes import (
    APP_PROJECT,
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    STATEFUL_SET,
    ApiResource,
    Manifest,
)
from services.common.messages import FleetInstance

INSTANCE_LABEL = "managed-gitops.redhat.com/engine-instance"
"""Label of everything that a provisioner makes, with the instance's id. It changes and removes nothing else."""
PLATFORM_LABEL = "managed-gitops.redhat.com/platform"
"""Nothing of tenants is deployed to a namespace with this label."""
POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
"""No pod of such a namespace can use its node, even if somebody has the provisioner's rights."""

SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
SERVICE = ApiResource("", "v1", "Service", "services")
ROLE = ApiResource("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
NETWORK_POLICY = ApiResource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")

NAMESPACED = (
    *(SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CONFIG_MAP, SECRET, APP_PROJECT),
    *(NETWORK_POLICY, SERVICE, DEPLOYMENT, STATEFUL_SET),
)
"""Kinds of an installation, in the order in which they are applied: pods come last."""
WORKLOADS = (DEPLOYMENT.kind, STATEFUL_SET.kind)
KINDS = {each.kind: each for each in (*NAMESPACED, CLUSTER_ROLE_BINDING)}
SHOWN = 5
"""How many names a message has. The others are counted."""
Stamp = tuple[int, int, int]
"""Identifies a state of a file: inode, time of the last change, size."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object of an installation."""

    resource: ApiResource
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Rendering:
    """The manifests of one version and profile at one moment."""

    manifests: tuple[Manifest, ...]
    """Shared, so nobody may change them."""
    digest: str
    """Digest of what they become for an instance: the same for all instances, whatever their ids and namespaces."""


class Renderings:
    """The rendered manifests of the release."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is read again each time, because a mounted folder may change."""
        self._folder = folder
        self._read: dict[Path, tuple[Stamp, list[Manifest]]] = {}
        """By file, its state when it was read, and its content. To parse a file takes long, and blocks all else."""

    def manifests_of(self, version: str, profile: str) -> list[Manifest]:
        """The manifests of one version and profile. Raises Permanent if there are none, or if they are unreadable.

        Each has the fields that are read here, with the types that API servers accept. Callers share them, and must not
        change them.
        """
        path = self._folder / f"{self._name(version, profile)}.yaml"
        if not path.is_file():
            known = ", ".join(self.names()) or "none"
            raise Permanent(
                f"there are no manifests of Argo CD {version}{f' with profile {profile}' if profile else ''}, but of "
                f"{known}: render them (k8s/README.md), or order another version"
            )
        try:
            stamp = _stamp(path)  # before it is read: if it changes meanwhile, it is another one next time
            if path not in self._read or self._read[path][0] != stamp:
                self._read[path] = stamp, _objects_in(path)
        except (OSError, ValueError, TypeError, yaml.YAMLError) as error:  # ValueError also where it is no UTF-8
            raise Permanent(f"the manifests in {path.name} are not to be read: {error}") from error
        return list(self._read[path][1])

    def names(self) -> list[str]:
        """Versions, each with its profile, that have manifests."""
        return sorted(path.stem for path in self._folder.glob("*.yaml"))

    def _name(self, version: str, profile: str) -> str:
        return f"{version}-{profile}" if profile else version


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _objects_in(path: Path) -> list[Manifest]:
    # As API servers take it: YAML has keys that are no texts, and bytes, which JSON has not.
    found = orjson.loads(orjson.dumps(list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))))
    for number, each in enumerate(found, 1):
        if each is not None and not _is_object(each):
            raise Permanent(f"document {number} in {path.name} is no Kubernetes object: render it again")
    return [each for each in found if each is not None]


def _is_object(document: Any) -> bool:
    """Whether it has a kind and a name, and its namespace, labels and subjects can be read and replaced."""
    known = dict_of(document)
    metadata, subjects = dict_of(known.get("metadata")), known.get("subjects") or []
    namespaces = [each.get("namespace") or "" for each in (metadata, *dicts_of(subjects))]
    return (
        bool(text_of(known.get("kind")) and text_of(metadata.get("name")))
        and all(isinstance(each, str) for each in namespaces)
        and isinstance(metadata.get("labels") or {}, dict)
        and dicts_of(subjects) == subjects
    )


def namespace_of(instance: FleetInstance) -> Manifest:
    """The namespace of an instance."""
    labels = {INSTANCE_LABEL: instance.id, PLATFORM_LABEL: "true", POD_SECURITY_LABEL: "restricted"}
    metadata = {"name": instance.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata}


def rendering(manifests: Iterable[Manifest], instance: FleetInstance) -> Rendering:
    """The rendering of these manifests for ``instance``. Raises Permanent if they may not be installed."""
    given = tuple(manifests)
    placed = installation(given, replace(instance, id="instance", namespace="namespace"))
    written = orjson.dumps([each.manifest for each in placed], option=orjson.OPT_SORT_KEYS)
    return Rendering(given, digest(written.decode()))


def installation(rendered: Iterable[Manifest], instance: FleetInstance) -> list[Wanted]:
    """The objects of an instance, in the order in which they are applied.

    Raises Permanent if they may not be installed.
    """
    rendered = list(rendered)
    before = {namespace for each in rendered if (namespace := each.get("metadata", {}).get("namespace"))}
    if len(before) > 1:
        raise Permanent(f"the manifests are of several namespaces: {', '.join(sorted(before))}")
    _require_version(rendered, instance)
    wanted = [_placed(each, instance, before) for each in rendered]
    order = {resource.kind: number for number, resource in enumerate((*NAMESPACED, CLUSTER_ROLE_BINDING))}
    return sorted(wanted, key=lambda each: (order[each.resource.kind], each.manifest["metadata"]["name"]))


def _require_version(rendered: Iterable[Manifest], instance: FleetInstance) -> None:
    """Require the ordered version, as far as the images name one."""
    named = {each["metadata"]["name"]: each for each in rendered if each.get("kind") in WORKLOADS}
    found = version_of(Workloads(named.get(REPO_SERVER), named.get(CONTROLLER)))
    if found is not None and found != parsed_version(instance.wanted_version):
        raise Permanent(f"the manifests are of Argo CD {found}, not {instance.wanted_version}: render them again")


def _placed(rendered: Manifest, instance: FleetInstance, before: set[str]) -> Wanted:
    resource = KINDS.get(rendered.get("kind", ""))
    if resource is None or rendered.get("apiVersion") != resource.api_version:
        raise Permanent(
            f"the manifests hold a {rendered.get('apiVersion')} {rendered.get('kind')}, which no instance may bring: "
            f"leave it out, or apply it once for the cluster"
        )
    manifest = copy.deepcopy(rendered)
    metadata = manifest["metadata"]
    if resource is CLUSTER_ROLE_BINDING:
        metadata["name"] = f"{metadata['name']}-{instance.id}"
        metadata.pop("namespace", None)
    else:
        metadata["namespace"] = instance.namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), INSTANCE_LABEL: instance.id}
    for subject in manifest.get("subjects") or ():
        # A cluster's binding is of accounts of the instance alone, whatever namespace the manifests were rendered for.
        if resource is CLUSTER_ROLE_BINDING or subject.get("namespace") in before:
            subject["namespace"] = instance.namespace
    return Wanted(resource, manifest)


def differs(wanted: Any, live: Any) -> bool:
    """Whether ``live`` lacks anything of ``wanted``. What others have added is ignored."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return bool(wanted)
        return any(_is_missing(value, live.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(live, list) or len(wanted) != len(live):
            return True
        return any(differs(*pair) for pair in zip(wanted, live, strict=True))
    return bool(wanted != live)


def _is_missing(wanted: Any, live: Any) -> bool:
    """Whether ``live`` lacks ``wanted``. An empty value may be left out."""
    return (wanted not in (None, {}, [], "") or live is not None) and differs(wanted, live)


def is_rolled_out(workload: Manifest) -> bool:
    """Whether all of its pods are current and ready. Old pods run on while new ones do not start."""
    status = dict_of(workload.get("status"))
    if "observedGeneration" not in status:  # nobody looks after it
        return True
    wanted = workload["spec"].get("replicas", 1)
    counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "readyReplicas")]
    return bool(status["observedGeneration"] >= workload["metadata"]["generation"]) and counts == [wanted] * 3


def described(names: Iterable[str]) -> str:
    """Some of the names, and the number of the others."""
    ordered = sorted(names)
    more = len(ordered) - SHOWN
    return ", ".join(ordered[:SHOWN]) + (f" and {more} more" if more > 0 else "")
