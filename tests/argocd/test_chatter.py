"""What Argo CD says while it works, and how little of that becomes a write of a user's resource."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta

import pytest

from devstack.harness.mirror import Mirror
from services.common.kubernetes import APPLICATION, ApiResource, Changed, KubeClient, ListCompleted, Manifest, reflect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.argocd.deployed import SETTLED
from tests.argocd.sources import Source, Sources, config_map
from tests.e2e.tenant import Tenant, application_name, find

DEPLOYMENTS = 6
WRITES_PER_SYNC = 4
"""Two or three are usual; how many states last long enough to be told depends on how fast Argo CD works."""
REST = timedelta(seconds=10)

Changes = Counter[str]
"""Changes of objects, by the object's name; that it was made is one."""
Record = Callable[[str, object], None]


@pytest.fixture
def sources(source: Sources) -> dict[str, Source]:
    """A repository for each deployment, by the deployment's name."""
    names = [f"app-{number}" for number in range(DEPLOYMENTS)]
    return {name: source(config_map("first", name)) for name in names}


async def test_status_when_argocd_syncs_or_compares_then_little_or_nothing_of_what_it_says_is_written(
    kube: KubeClient, tenant: Tenant, applications: Mirror, sources: dict[str, Source], record_property: Record
) -> None:
    async with counted(kube, tenant) as (written, said):
        created = {name: await tenant.create(name, source=source.spec()) for name, source in sources.items()}
        await until_healthy(tenant, {name: source.repository.head() for name, source in sources.items()})
    for name, item in created.items():  # that they were made
        written[name] -= 1
        said[application_name(item)] -= 1
    record_property("creation", figures(created, written, said))
    assert_few(created, written)
    async with counted(kube, tenant) as (written, said):
        commits = {name: source.commit(config_map("second", name)) for name, source in sources.items()}
        await until_healthy(tenant, commits)
    record_property("commit", figures(created, written, said))
    assert_few(created, written)
    async with counted(kube, tenant) as (written, said):
        await until_compared(applications, created)
    rest = figures(created, written, said)
    record_property("rest", rest)
    assert rest["before"] > 0
    assert not written


def assert_few(created: dict[str, Manifest], written: Changes) -> None:
    """At least one of each deployment, and no more than so many of an ordinary one."""
    assert all(written[name] for name in created)
    assert written.total() <= WRITES_PER_SYNC * len(created)


def figures(created: dict[str, Manifest], written: Changes, said: Changes) -> dict[str, float]:
    """Per deployment: what would be written if all were, and what is."""
    events = sum(said[application_name(manifest)] for manifest in created.values())
    return {"before": events / len(created), "after": written.total() / len(created)}


async def until_healthy(tenant: Tenant, commits: dict[str, str]) -> None:
    """Wait until each deployment is at its commit."""
    for name, commit in commits.items():
        await tenant.until_status("deployed", name, sync__revision=commit, **SETTLED)


async def until_compared(applications: Mirror, created: dict[str, Manifest]) -> None:
    """Wait until Argo CD has gone on comparing for a while."""
    names = [application_name(manifest) for manifest in created.values()]
    due = {name: compared_at(applications, name) + REST for name in names}
    await applications.until(
        f"compared for {REST}",
        lambda _: all(compared_at(applications, name) >= due[name] for name in names),
    )


def compared_at(applications: Mirror, name: str) -> datetime:
    """When Argo CD compared it last."""
    application = find(applications.objects, name)
    assert application is not None
    return datetime.fromisoformat(application["status"]["reconciledAt"])


@asynccontextmanager
async def counted(kube: KubeClient, tenant: Tenant) -> AsyncIterator[tuple[Changes, Changes]]:
    """Changes of the tenant's deployments, and of all Applications, while the block runs."""
    written, said = Changes(), Changes()
    kinds = ((GITOPS_DEPLOYMENT, tenant.namespace, written), (APPLICATION, None, said))
    async with AsyncExitStack() as counting:
        for resource, namespace, changes in kinds:
            await counting.enter_async_context(counting_into(changes, kube, resource, namespace))
        yield written, said


@asynccontextmanager
async def counting_into(
    changes: Changes, kube: KubeClient, resource: ApiResource, namespace: str | None
) -> AsyncIterator[None]:
    """Count from the first list on, until the block ends."""
    listed = asyncio.Event()

    async def count() -> None:
        async for event in reflect(kube, resource, namespace):
            match event:
                case ListCompleted():
                    listed.set()
                case Changed(item):
                    changes[item["metadata"]["name"]] += 1

    task = asyncio.create_task(count())
    try:
        await listed.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
