"""A commit that Argo CD deploys: it does its work."""

from __future__ import annotations

from tests.argocd.deployed import HEALTHY
from tests.argocd.sources import Source, config_map
from tests.e2e.tenant import Tenant

DEPLOYED_SECONDS = 120


async def deploy_next_commit(tenant: Tenant, repository: Source) -> None:
    """To the repository of the tenant's deployment, which names it; it is Healthy on return."""
    commit = repository.commit(config_map("after"))
    await tenant.patch("web", {"spec": {"source": {"targetRevision": commit}}})
    await tenant.until_status("goes on", timeout_seconds=DEPLOYED_SECONDS, sync__revision=commit, **HEALTHY)
