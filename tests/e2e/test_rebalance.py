"""An instance comes and goes while tenants are at work: a rebalance spreads them, and empties it again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.e2e.operators import add_ready_instance, listed, of_instances, retire, sole_instance, typed, until_seen
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant, path
from tests.e2e.test_fleet import namespace

__all__ = ["namespace"]

FIRST, SECOND = ENGINE_NAMESPACES
TENANTS = 6


@pytest.fixture
async def crowd(
    kube: KubeClient, deployments: Mirror, applications: Mirror, namespace: str
) -> AsyncIterator[list[Tenant]]:
    """Tenants that have nothing yet. They leave while the engine still runs that they may have been moved to."""
    async with AsyncExitStack() as leaving:
        yield [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(TENANTS)]


@asynccontextmanager
async def added(stack: HostedStack, name: str) -> AsyncIterator[None]:
    """An instance that takes tenants meanwhile, and none afterwards: later tests must not be given it."""
    await add_ready_instance(stack, name)
    try:
        yield
    finally:
        await asyncio.to_thread(of_instances, stack, "drain", name)  # refused if it is retired by then


async def until_moved(stack: HostedStack, crowd: list[Tenant]) -> None:
    """Until none of these tenants moves: one of another test may, to or from an instance without an agent."""
    namespaces = {tenant.namespace for tenant in crowd}

    def have_arrived(moves: list[dict[str, Any]]) -> bool:
        return namespaces.isdisjoint(each["namespace"] for each in moves)

    await until_seen(lambda: listed(stack, "moves"), have_arrived)


async def test_tenants_when_an_instance_is_added_and_given_up_again_then_they_are_spread_and_notice_nothing(
    stack: HostedStack, crowd: list[Tenant], applications: Mirror, namespace: str
) -> None:
    with sole_instance(stack, FIRST):
        created = [await tenant.create() for tenant in crowd]
        for tenant in crowd:
            await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    names = {application_name(each) for each in created}

    def places() -> Counter[str]:
        return Counter(place for place, name in applications.objects if name in names)

    assert places() == {FIRST: TENANTS}
    async with AsyncExitStack() as watching:
        await watching.enter_async_context(added(stack, namespace))
        seen = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in crowd]
        tried = await typed(stack, "rebalance", "--dry-run")
        assert "fleet: would be accepted, tenants that move: " in tried
        assert places() == {FIRST: TENANTS}

        assert (await typed(stack, "rebalance")).startswith("fleet: accepted, tenants that move: ")
        await until_moved(stack, crowd)
        # How many are where depends on what tenants of other tests still have there.
        spread = places()
        assert (set(spread), spread.total()) == ({FIRST, SECOND, namespace}, TENANTS)
        assert "'gitopsctl engines rebalance' moves them" in await typed(stack, "drain", namespace)
        emptied = await typed(stack, "rebalance", "--from", namespace)
        assert emptied.startswith("fleet: accepted, tenants that move: ")
        await until_moved(stack, crowd)
        assert (sum(places().values()), places()[namespace]) == (TENANTS, 0)
        assert [await each.changes(BY_SIMULATOR) for each in seen] == [[]] * TENANTS
        await retire(stack, namespace)
    await crowd[0].patch("web", path("apps/after"))
    await crowd[0].until_path(created[0], "apps/after")
