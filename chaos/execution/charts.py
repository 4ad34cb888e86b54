"""What there is to deploy where Argo CD is real: a chart for each path, whose objects are each Application's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence

from chaos.plan.random_operations import OVER_SSH, REPOSITORIES
from devstack.git.repository import Repository
from devstack.git.site import PRIVATE, PUBLIC, GitSite

BRANCHES = ("main", "v1")
CHART = "apiVersion: v2\nname: chaos\nversion: 1.0.0\n"
OBJECT = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ .Release.Name }}}}
data:
  from: {content}
"""
"""Argo CD names a release as its Application: what two of a tenant deploy to one namespace is never the same."""


def urls(site: GitSite) -> tuple[str, ...]:
    """Of each repository of a tenant, with ``{namespace}`` for its namespace."""
    return tuple(f"{site.https_url}/{PUBLIC}/{{namespace}}-{number}.git" for number in range(REPOSITORIES))


def private_urls(site: GitSite, prefix: str) -> tuple[str, ...]:
    """Of repositories that need a login; over ssh with ``{username}``."""
    ssh = site.ssh_url_of("{username}")
    servers = (ssh if number == OVER_SSH else site.https_url for number in range(REPOSITORIES))
    return tuple(f"{server}/{PRIVATE}/{prefix}-{number}.git" for number, server in enumerate(servers))


def make_private_repositories(site: GitSite, prefix: str) -> None:
    """Those: all tenants have credentials of the same ones."""
    for number in range(REPOSITORIES):
        site.create(f"{prefix}-{number}", PRIVATE).commit({"README": "private"})


def make_repositories(site: GitSite, namespaces: Iterable[str], paths: Sequence[str]) -> None:
    """Those of the tenants of these namespaces, all alike."""
    first = site.create("chaos")
    for branch in BRANCHES:
        first.commit(dict(_files(paths, branch)), branch=branch)
    for namespace in namespaces:
        for number in range(REPOSITORIES):
            shutil.copytree(first.path, site.repositories / PUBLIC / f"{namespace}-{number}.git")


def commit_of(site: GitSite, url: str) -> str:
    """What the first branch of a tenant's repository is at."""
    return Repository(site.repositories / PUBLIC / url.rpartition("/")[2]).head(BRANCHES[0])


def _files(paths: Sequence[str], branch: str) -> Iterable[tuple[str, str]]:
    for path in paths:
        yield f"{path}/Chart.yaml", CHART
        yield f"{path}/templates/object.yaml", OBJECT.format(content=f"{branch} {path}")
