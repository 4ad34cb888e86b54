"""The AppProjects of each tenant: what its deployments may be made from, and where they may go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from chaos.checker.difference import differing_parts
from chaos.checker.expected import OURS, Expected
from chaos.checker.tenants import LOCAL, Tenant
from services.common.kubernetes import Manifest

CONFINING = [{"group": "", "kind": "LimitRange"}, {"group": "", "kind": "ResourceQuota"}]
SYNC_ACCOUNT = "gitops-service-sync"
LOCAL_SERVER = "https://kubernetes.default.svc"

Destination = tuple[str, str]
"""Cluster and namespace."""


@dataclass(frozen=True, slots=True)
class Range:
    """What must be listed, and what else may be: what an environment that cannot be used has left."""

    certain: frozenset[object]
    possible: frozenset[object]

    def problems(self, what: str, found: frozenset[object]) -> list[str]:
        """What of ``found`` is too much, or too little."""
        lacking, beyond = self.certain - found, found - self.certain - self.possible
        texts = {f"{what} lacks": lacking, f"{what} has, which nothing asks for,": beyond}
        return [f"{text} {sorted(map(str, items))}" for text, items in texts.items() if items]


def projects(tenant: Tenant) -> Iterator[Expected]:
    """All of a tenant's."""
    repositories = _repositories(tenant)
    if not repositories.certain | repositories.possible:
        return
    own = frozenset({(LOCAL, tenant.name)})
    ordinary, privileged = _clusters(tenant, privileged=False), _clusters(tenant, privileged=True)
    ordinary = Range(ordinary.certain | own, ordinary.possible)
    for name, reached, rest in (
        (tenant.project, ordinary, _of_ordinary(tenant)),
        (tenant.cluster_project, privileged, _of_privileged()),
    ):
        if reached.certain | reached.possible:
            is_certain = bool(repositories.certain and reached.certain)
            judge = _judge(tenant, repositories, reached, rest)
            yield Expected(("AppProject", name), tenant.name, judge, is_certain)


def _judge(tenant: Tenant, repositories: Range, reached: Range, rest: Manifest) -> Callable[[Manifest], list[str]]:
    def problems(item: Manifest) -> list[str]:
        meta, spec = item["metadata"], dict(item["spec"])
        listed = frozenset(spec.pop("sourceRepos", []))
        listed_places = ((each.get("name"), each["namespace"]) for each in spec.pop("destinations", []))
        places = frozenset(each for each in listed_places if each[0] not in tenant.clusters_with_unknown_past)
        look = {"labels": meta.get("labels"), "username": (meta.get("annotations") or {}).get("username"), "spec": spec}
        return [
            *repositories.problems("sourceRepos", listed),
            *reached.problems("destinations", places),
            *differing_parts({"labels": OURS, "username": tenant.id, "spec": rest}, look),
        ]

    return problems


def _of_ordinary(tenant: Tenant) -> Manifest:
    account = {"server": LOCAL_SERVER, "namespace": tenant.name, "defaultServiceAccount": SYNC_ACCOUNT}
    return {"namespaceResourceBlacklist": CONFINING, "destinationServiceAccounts": [account]}


def _of_privileged() -> Manifest:
    return {"clusterResourceWhitelist": [{"group": "*", "kind": "*"}], "permitOnlyProjectScopedClusters": True}


def _repositories(tenant: Tenant) -> Range:
    """Of a private repository whose login opens nothing: it is listed until another's opens it, who is judged apart."""
    certain = {each["spec"]["repository"] for each in tenant.credentials if tenant.opens(each)}
    certain |= {each.manifest["spec"]["source"]["repoURL"] for each in tenant.deployments if each.is_certain}
    waiting = [each.uid for each in tenant.deployments if not each.is_certain]
    possible = {spec["source"]["repoURL"] for uid in waiting for spec in tenant.accepted_specs(uid)}
    possible |= {each.manifest["spec"]["source"]["repoURL"] for each in tenant.deployments if each.has_unknown_past}
    possible |= {each["spec"]["repository"] for each in tenant.credentials}
    return Range(frozenset(map(normalised, certain)), frozenset(map(normalised, possible)))


def normalised(url: str) -> str:
    """As an AppProject lists a URL of https, or of ssh with a port."""
    return url.lower().removesuffix(".git")


def _clusters(tenant: Tenant, *, privileged: bool) -> Range:
    works = [each for each in tenant.environments.values() if each.usability == "works"]
    others = [each for each in tenant.environments.values() if each.usability != "works"]
    certain = {place for each in works for place in _places(each.cluster, [each.spec], privileged)}
    possible = {
        place for each in others for place in _places(each.cluster, tenant.record.contents[each.uid], privileged)
    }
    return Range(frozenset(certain), frozenset(possible))


def _places(cluster: str, specs: Iterable[Manifest], privileged: bool) -> Iterator[Destination]:
    for spec in specs:
        if bool(spec.get("clusterResources")) == privileged:
            yield from ((cluster, namespace) for namespace in spec.get("namespaces") or ["*"])
