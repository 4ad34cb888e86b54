"""Where a build service writes the manifests of components, or seems to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import yaml

from devstack.git.repository import BRANCH, Repository
from devstack.git.site import PUBLIC, GitSite
from services.common.errors import Unavailable


@dataclass(frozen=True)
class Wanted:
    """A component of a binding, as a snapshot has it."""

    tenant: str
    application: str
    environment: str
    component: str
    snapshot: str
    image: str
    configuration: Mapping[str, Any]
    """Of the component in this environment, as the binding has it."""

    @property
    def path(self) -> str:
        """Of its overlay."""
        return f"components/{self.component}/overlays/{self.environment}"


class GitOpsRepositories(Protocol):
    """What a build service writes to. Called again with the same it changes nothing."""

    def write_component(self, wanted: Wanted) -> dict[str, Any]:
        """Where the component is now, as ``gitopsRepository`` of a binding's status says it."""


class PretendedRepositories:
    """Nothing is written: with the simulator of Argo CD no git server is asked, and a branch decides about the commit.

    So each snapshot is on a branch of its own.
    """

    def write_component(self, wanted: Wanted) -> dict[str, Any]:
        """See the class."""
        url = f"https://git.example.com/{wanted.tenant}/{wanted.application}.git"
        commit = hashlib.sha1(f"{url}@{wanted.snapshot}".encode(), usedforsecurity=False).hexdigest()
        return {"url": url, "branch": wanted.snapshot, "path": wanted.path, "commitID": commit}


class KustomizedRepositories:
    """A repository for each application, on the stack's git server: a base for each component, and overlays."""

    def __init__(self, site: GitSite) -> None:
        self._site = site

    def write_component(self, wanted: Wanted) -> dict[str, Any]:
        """A commit, unless the files are there already."""
        name = f"{wanted.tenant}-{wanted.application}"
        repository = Repository(self._site.repositories / PUBLIC / f"{name}.git")
        if not repository.path.exists():
            Repository.create(repository.path)
        files = component_files(wanted)
        if not _has(repository, files):
            repository.commit(files, f"{wanted.component} of {wanted.snapshot} for {wanted.environment}")
        url = f"{self._site.https_url}/{PUBLIC}/{name}.git"
        return {"url": url, "branch": BRANCH, "path": wanted.path, "commitID": repository.head()}


def component_files(wanted: Wanted) -> dict[str, str]:
    """A base, which all environments share, and the overlay of one environment with its image."""
    base, name = f"components/{wanted.component}/base", wanted.component
    image = {"op": "replace", "path": "/data/image", "value": wanted.image}
    replicas = {"op": "replace", "path": "/data/replicas", "value": str(wanted.configuration.get("replicas") or 1)}
    deployed = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"image": "", "replicas": "1"},
    }
    overlay = {
        "resources": ["../../base"],
        "nameSuffix": f"-{wanted.environment}",
        "patches": [{"target": {"kind": "ConfigMap", "name": name}, "patch": yaml.safe_dump([image, replicas])}],
    }
    return {
        f"{base}/configmap.yaml": yaml.safe_dump(deployed),
        f"{base}/kustomization.yaml": yaml.safe_dump({"resources": ["configmap.yaml"]}),
        f"{wanted.path}/kustomization.yaml": yaml.safe_dump(overlay),
    }


def _has(repository: Repository, files: Mapping[str, str]) -> bool:
    try:
        return all(repository.show(BRANCH, path).strip() == text.strip() for path, text in files.items())
    except Unavailable:
        return False
