"""Git repositories as tenants fill them: what they hold and how they are reached."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, GitSite
from services.common.kubernetes import Manifest

NAME = "settings"
"""Of the config map that most repositories hold."""


@dataclass(frozen=True)
class Source:
    """One repository with its folder ``app``, which is deployed."""

    repository: Repository
    https: str
    ssh: str

    @classmethod
    def create(cls, site: GitSite, *manifests: Manifest, visibility: str = PUBLIC) -> Source:
        """A new repository with one commit; without manifests it holds one config map of value ``first``."""
        name = f"repository-{uuid.uuid4().hex[:8]}"
        path = f"{visibility}/{name}.git"
        source = cls(site.create(name, visibility), f"{site.https_url}/{path}", f"{site.ssh_url}/{path}")
        source.commit(*(manifests or (config_map("first"),)))
        return source

    def commit(self, *manifests: Manifest) -> str:
        """Add or change manifests; returns the commit's id."""
        return self.repository.commit({_path(manifest): yaml.safe_dump(manifest) for manifest in manifests})

    def remove(self, manifest: Manifest) -> str:
        """Remove a manifest; returns the commit's id."""
        return self.repository.commit({_path(manifest): None})

    def write(self, path: str, text: str) -> str:
        """Commit what need not be a manifest; returns the commit's id."""
        return self.repository.commit({f"app/{path}": text})

    def spec(self, **source: str) -> dict[str, Any]:
        """``source`` of a deployment of it."""
        return {"repoURL": self.https, "path": "app"} | source


Sources = Callable[..., Source]
"""Makes repositories that hold these manifests."""


def config_map(value: str, name: str = NAME, **metadata: Any) -> Manifest:
    """A manifest that says something."""
    return _manifest("v1", "ConfigMap", name, metadata) | {"data": {"value": value}}


def namespace(name: str) -> Manifest:
    """A manifest of something that belongs to no namespace."""
    return _manifest("v1", "Namespace", name, {})


def workload(name: str) -> Manifest:
    """A Deployment of no pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": "nothing"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return _manifest("apps/v1", "Deployment", name, {}) | {"spec": spec}


def service(name: str) -> Manifest:
    """Of the Deployment of that name."""
    return _manifest("v1", "Service", name, {}) | {"spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}


def endless_hook() -> Manifest:
    """A job that must end before a sync begins, and never does: there is nobody to run it."""
    container = {"name": "nobody-runs-it", "image": "nothing"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    annotations = {"argocd.argoproj.io/hook": "PreSync"}
    return _manifest("batch/v1", "Job", "endless", {"annotations": annotations}) | {"spec": {"template": template}}


def _manifest(api_version: str, kind: str, name: str, metadata: dict[str, Any]) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name} | metadata}


def _path(manifest: Manifest) -> str:
    return f"app/{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"
