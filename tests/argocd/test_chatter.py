"""What Argo CD says while it works, and how little of that becomes a write of a user's resource."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from services.common.kube import APPLICATION, GITOPS_DEPLOYMENT, Changed, KubeClient, ListCompleted, Resource, reflect
from tests.argocd.deployed import HEALTHY
from tests.argocd.sources import Source, Sources, config_map
from tests.e2e.tenant import Tenant

DEPLOYMENTS = 6
KINDS = (APPLICATION, GITOPS_DEPLOYMENT)


@pytest.fixture
def sources(source: Sources) -> dict[str, Source]:
    """A repository for each deployment, by the deployment's name."""
    names = [f"app-{number}" for number in range(DEPLOYMENTS)]
    return {name: source(config_map("first", name)) for name in names}


async def test_status_when_argocd_syncs_then_most_of_what_it_says_is_not_written(
    kube: KubeClient, tenant: Tenant, sources: dict[str, Source], record_property: Callable[[str, object], None]
) -> None:
    async with counted(kube) as creation:
        for name, source in sources.items():
            await tenant.create(name, source=source.spec())
        await until_healthy(tenant, {name: source.repository.head() for name, source in sources.items()})
    async with counted(kube) as commit:
        commits = {name: source.commit(config_map("second", name)) for name, source in sources.items()}
        await until_healthy(tenant, commits)
    creation.subtract({resource.kind: DEPLOYMENTS for resource in KINDS})  # that they were made
    for said in (creation, commit):
        per_sync = {kind: count / DEPLOYMENTS for kind, count in said.items()}
        record_property("changes per sync", per_sync)
        assert per_sync[GITOPS_DEPLOYMENT.kind] <= per_sync[APPLICATION.kind] / 2


async def until_healthy(tenant: Tenant, commits: dict[str, str]) -> None:
    """Wait until each deployment is at its commit."""
    for name, commit in commits.items():
        await tenant.until_status("deployed", name, sync__revision=commit, **HEALTHY)


@asynccontextmanager
async def counted(kube: KubeClient) -> AsyncIterator[Counter[str]]:
    """Changes of objects, by kind, while the block runs; that an object was made is one."""
    changes: Counter[str] = Counter()
    listed = {resource.kind: asyncio.Event() for resource in KINDS}

    async def count(resource: Resource) -> None:
        async for event in reflect(kube, resource):
            if isinstance(event, ListCompleted):
                listed[resource.kind].set()
            changes[resource.kind] += isinstance(event, Changed)

    counting = [asyncio.create_task(count(resource)) for resource in KINDS]
    for event in listed.values():
        await event.wait()
    yield changes
    for task in counting:
        task.cancel()
    await asyncio.gather(*counting, return_exceptions=True)
