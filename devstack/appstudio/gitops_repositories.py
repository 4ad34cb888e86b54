"""Where a build service writes the manifests of components, or seems to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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


CONTAINER = "container-image"
"""Name of the container that runs a component's image."""


class GitOpsRepositories(Protocol):
    """What a build service writes to. Called again with the same it changes nothing."""

    @property
    def names_anew(self) -> bool:
        """Whether another snapshot is named where it is. AppStudio's build service names each component but once."""

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """One after the other, a commit each: where each is, as ``gitopsRepository`` of a binding's status says it."""


class PretendedRepositories:
    """Nothing is written: with the simulator of Argo CD no git server is asked, and a branch decides about the commit.

    So each snapshot is on a branch of its own in each environment. Its head is the commit of the last component.
    """

    names_anew = True

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """See the class."""
        return [_pretended(each, is_last=each is wanted[-1]) for each in wanted]


def _pretended(wanted: Wanted, *, is_last: bool) -> dict[str, Any]:
    url = f"https://git.example.com/{wanted.tenant}/{wanted.application}.git"
    branch = f"{wanted.environment}/{wanted.snapshot}"
    head = f"{url}@{branch}"
    commit = head if is_last else f"{head}/{wanted.component}"
    digest = hashlib.sha1(commit.encode(), usedforsecurity=False).hexdigest()
    return {"url": url, "branch": branch, "path": wanted.path, "commitID": digest}


class KustomizedRepositories:
    """A repository for each application, on the stack's git server: a base for each component, and overlays."""

    def __init__(self, site: GitSite, *, names_anew: bool = False) -> None:
        self._site = site
        self.names_anew = names_anew

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """A commit for each, unless its files are there already: then it is the one that brought them there."""
        return [self._write(each) for each in wanted]

    def files_of(self, wanted: Wanted) -> Mapping[str, str]:
        """What a component consists of, by path."""
        return component_files(wanted)

    def _write(self, wanted: Wanted) -> dict[str, Any]:
        name = f"{wanted.tenant}-{wanted.application}"
        repository = Repository(self._site.repositories / PUBLIC / f"{name}.git")
        if not repository.path.exists():
            Repository.create(repository.path)
        files = self.files_of(wanted)
        if not _has(repository, files):
            repository.commit(files, f"{wanted.component} of {wanted.snapshot} for {wanted.environment}")
        url = f"{self._site.https_url}/{PUBLIC}/{name}.git"
        commit = repository.last_change(wanted.path)
        return {"url": url, "branch": BRANCH, "path": wanted.path, "commitID": commit}


def component_files(wanted: Wanted) -> dict[str, str]:
    """A base, which all environments share, and the overlay of one environment, which patches its image into it.

    Environments may share a namespace, so what an overlay makes has the environment in its name and its selector.
    """
    base = f"components/{wanted.component}/base"
    overlay = {
        "resources": ["../../base"],
        "nameSuffix": f"-{wanted.environment}",
        "labels": [{"pairs": {"environment": wanted.environment}, "includeSelectors": True}],
        "patches": [{"path": "deployment-patch.yaml"}],
    }
    files = {
        f"{base}/deployment.yaml": _deployment(wanted.component),
        f"{base}/kustomization.yaml": {"resources": ["deployment.yaml"]},
        f"{wanted.path}/deployment-patch.yaml": _patch(wanted),
        f"{wanted.path}/kustomization.yaml": overlay,
    }
    return {path: yaml.safe_dump(content) for path, content in files.items()}


def _deployment(component: str) -> dict[str, Any]:
    labels = {"app": component}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": CONTAINER, "image": "none"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": component}, "spec": spec}


def _patch(wanted: Wanted) -> dict[str, Any]:
    """What an environment has of its own: the image of the snapshot, and what the binding configures."""
    container = {"name": CONTAINER, "image": wanted.image}
    variables = [{"name": each["name"], "value": each["value"]} for each in wanted.configuration.get("env") or ()]
    template = {"spec": {"containers": [container | ({"env": variables} if variables else {})]}}
    spec = {"replicas": wanted.configuration.get("replicas") or 1, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": wanted.component}, "spec": spec}


def _has(repository: Repository, files: Mapping[str, str]) -> bool:
    try:
        return all(repository.show(BRANCH, path).strip() == text.strip() for path, text in files.items())
    except Unavailable:
        return False
