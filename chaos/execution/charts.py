"""What there is to deploy where Argo CD is real: a chart for each path, whose objects are each Application's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.plan.random_operations import OVER_SSH, REPOSITORIES
from devstack.appstudio.gitops_repositories import KustomizedRepositories, Wanted
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
        files = [_chart(path, f"{branch} {path}") for path in paths]
        first.commit({name: text for each in files for name, text in each.items()}, branch=branch)
    for namespace in namespaces:
        for number in range(REPOSITORIES):
            shutil.copytree(first.path, site.repositories / PUBLIC / f"{namespace}-{number}.git")


class ComponentCharts(KustomizedRepositories):
    """Of components likewise a chart for each snapshot in each environment: all on one branch.

    Several bindings may be for one environment, and have different snapshots: none overwrites what another one has.
    """

    def __init__(self, site: GitSite) -> None:
        super().__init__(site, names_anew=True)

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """See :class:`GitOpsRepositories`."""
        places = [replace(each, environment=f"{each.environment}/{each.snapshot}") for each in wanted]
        return super().write_components(places)

    def files_of(self, wanted: Wanted) -> Mapping[str, str]:
        """See the class."""
        return _chart(wanted.path, wanted.image)


def _chart(path: str, content: str) -> dict[str, str]:
    return {f"{path}/Chart.yaml": CHART, f"{path}/templates/object.yaml": OBJECT.format(content=content)}
