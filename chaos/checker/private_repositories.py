"""Nobody gets at a private repository by another's login.

Argo CD shares its checkout of a repository among all Applications with the same URL. So where it holds a login
for one, no AppProject of another tenant may list that repository, unless that tenant's own login opens it. Logins are
known by their users' names, of which each tenant has one, over ssh in the URL; that a Secret holds its own tenant's is
judged with the Secrets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from chaos.api import SECRET_TYPE
from chaos.checker.difference import Difference
from chaos.checker.projects import normalised
from chaos.checker.tenants import Tenant
from chaos.checker.world import World, decoded


def private_repository_differences(world: World, tenants: Sequence[Tenant]) -> Iterator[Difference]:
    """All of them, judged by Argo CD's own objects."""
    fetched = _logins(world)
    owners = {name: tenant for tenant in tenants for name in (tenant.project, tenant.cluster_project)}
    for project in world.projects:
        tenant, meta = owners.get(project["metadata"]["name"]), project["metadata"]
        if tenant is None:
            continue
        listed = {normalised(url) for url in project["spec"].get("sourceRepos", [])}
        others = {url for url, username in fetched[meta["namespace"]] if username != tenant.login[0]}
        if closed := sorted(listed & others - _opened(tenant)):
            text = f"sourceRepos has {closed}, which only others' logins open"
            yield Difference("differs", f"AppProject {meta['name']}", text, tenant.name)


def _logins(world: World) -> defaultdict[str, set[tuple[str, str]]]:
    """By engine namespace, the repositories that Argo CD has logins for there, each with a user's name."""
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for secret in world.engine_secrets:
        if secret["metadata"]["labels"][SECRET_TYPE] == "repository":
            content = decoded(secret.get("data"))
            url = content.get("url", "")
            username = content.get("username") or urlsplit(url).username or ""
            found[secret["metadata"]["namespace"]].add((normalised(url), username))
    return found


def _opened(tenant: Tenant) -> set[str]:
    return {normalised(each["spec"]["repository"]) for each in tenant.credentials if tenant.opens(each)}
