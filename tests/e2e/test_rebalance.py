"""An instance comes and goes while tenants are at work: a rebalance spreads them, and empties it again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.e2e.moving import HEALTHY_VIEW, LOOK_SECONDS, MOVED_SECONDS, seen_by_user
from tests.e2e.operators import of_instances, sole_instance, typed
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
    await typed(stack, "add", name)
    try:
        yield
    finally:
        await asyncio.to_thread(of_instances, stack, "drain", name)  # refused if it is retired by then


async def until_moved(stack: HostedStack, crowd: list[Tenant]) -> None:
    """Until none of these tenants is on its way: one of another test may be, to or from an instance without an agent.

    Raises AssertionError that shows how far each is if that takes too long.
    """
    namespaces = {tenant.namespace for tenant in crowd}
    over = asyncio.get_running_loop().time() + MOVED_SECONDS
    while left := [each for each in await _moves(stack) if each["namespace"] in namespaces]:
        assert asyncio.get_running_loop().time() < over, left
        await asyncio.sleep(LOOK_SECONDS)


async def retire(stack: HostedStack, name: str) -> None:
    """Gives an instance up: what its refusal names is typed again while there is one.

    A tenant of another test was perhaps on its way there when the fleet was evened out, and is left alone then.

    Raises AssertionError that has the refusal if that takes too long.
    """
    over = asyncio.get_running_loop().time() + MOVED_SECONDS
    while (ordered := await asyncio.to_thread(of_instances, stack, "retire", name)).exit_code:
        assert "still has" in ordered.output, ordered.output
        assert asyncio.get_running_loop().time() < over, ordered.output
        await asyncio.to_thread(of_instances, stack, "rebalance")
        await asyncio.sleep(LOOK_SECONDS)
    assert ordered.stdout == f"{name}: accepted\n"


async def _moves(stack: HostedStack) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(await typed(stack, "moves", "-o", "json"))
    return listed


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
        views = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in crowd]
        tried = await typed(stack, "rebalance", "--dry-run")
        assert "fleet: would be accepted, tenants that move: " in tried
        assert places() == {FIRST: TENANTS}

        assert (await typed(stack, "rebalance")).startswith("fleet: accepted, tenants that move: ")
        await until_moved(stack, crowd)
        # How many are where depends on what tenants of other tests still have there.
        spread = places()
        assert (set(spread), spread.total()) == ({FIRST, SECOND, namespace}, TENANTS)
        assert "'gitopsctl engines rebalance' moves them" in await typed(stack, "drain", namespace)
        assert (await typed(stack, "rebalance")).startswith("fleet: accepted, tenants that move: ")
        await until_moved(stack, crowd)
        assert (sum(places().values()), places()[namespace]) == (TENANTS, 0)
        assert views == [[HEALTHY_VIEW]] * TENANTS
        await retire(stack, namespace)
    await crowd[0].patch("web", path("apps/after"))
    await crowd[0].until_path(created[0], "apps/after")
