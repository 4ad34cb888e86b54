"""An instance joins real Argo CDs: a rebalance brings tenants to it, and nothing that they deployed is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.argocd.deployed import HEALTHY, SETTLED
from tests.argocd.sources import Sources, config_map
from tests.argocd.test_moves import DEPLOYED_SECONDS, watched
from tests.e2e.operators import listed, sole_instance, typed, until_seen
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant
from tests.e2e.test_rebalance import until_moved

FIRST, SECOND = ENGINE_NAMESPACES
TENANTS = 4
LOAD = 1.1
"""Of a tenant: an Application and its project, in Applications."""


@pytest.fixture
async def crowd(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[list[Tenant]]:
    """Tenants that have nothing yet."""
    async with AsyncExitStack() as leaving:
        yield [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(TENANTS)]


async def until_load(stack: HostedStack, load: dict[str, float]) -> None:
    """Until the instances carry this, and are well: what other tests have left or broken is over."""

    def is_so(found: list[dict[str, Any]]) -> bool:
        return load == {
            each["id"]: each["load"] for each in found if each["id"] in load and each["health"] == "Healthy"
        }

    await until_seen(lambda: listed(stack, "list"), is_so)


async def test_tenants_when_an_instance_accepts_and_the_fleet_is_rebalanced_then_nothing_that_was_deployed_is_written(
    stack: HostedStack, crowd: list[Tenant], applications: Mirror, kube: KubeClient, source: Sources
) -> None:
    repositories = [source(config_map("first")) for _ in crowd]
    with sole_instance(stack, FIRST):
        created = [
            await tenant.create(source=repository.spec())
            for tenant, repository in zip(crowd, repositories, strict=True)
        ]
        for tenant in crowd:
            await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    await until_load(stack, {FIRST: TENANTS * LOAD, SECOND: 0.0})
    async with AsyncExitStack() as watching:
        histories = [await watching.enter_async_context(watched(kube, tenant.namespace)) for tenant in crowd]
        seen = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in crowd]
        assert (await typed(stack, "rebalance")).startswith("fleet: accepted, tenants that move: 2 of ")
        await until_moved(stack, crowd)
        places = sorted(
            place for each in created for place, name in applications.objects if name == application_name(each)
        )
        assert places == [FIRST, FIRST, SECOND, SECOND]
        assert [await each.changes() for each in histories] == [([], [])] * TENANTS
        assert [await each.changes() for each in seen] == [[]] * TENANTS
        for repository in repositories:
            repository.commit(config_map("second"))
        for tenant, repository in zip(crowd, repositories, strict=True):
            await tenant.until_status("goes on", sync__revision=repository.repository.head(), **HEALTHY)
        assert [await each.changes() for each in histories] == [([("ConfigMap", "settings")], [])] * TENANTS
