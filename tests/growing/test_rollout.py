"""A version comes to a ring of provisioned instances: nobody adds the new ones, and nobody removes the old."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.e2e.moving import HEALTHY_VIEW, seen_by_user
from tests.e2e.operators import typed
from tests.e2e.tenant import Tenant, application_name, fresh_tenant, path
from tests.growing.conftest import OLD_VERSION, VERSION
from tests.growing.fleet import Row, accepting_in, instances, listed, placed_in, retire_ring, until, until_removed

RING, TENANTS = "canary", 3
POOL = ("--ring", RING, "--min", "1", "--max", "1", "--spare", "0", "--capacity", "4", "--version", OLD_VERSION)

pytestmark = pytest.mark.usefixtures("provisioner")


@pytest.fixture
async def old(stack: HostedStack) -> AsyncIterator[Row]:
    """The only instance of the pool, of the old version. In the end the ring has none."""
    await typed(stack, "pool", "set", *POOL)

    async def holds() -> bool:
        return bool(await accepting_in(stack, RING, OLD_VERSION))

    await until("the pool has an instance", holds, lambda: instances(stack))
    (row,) = await accepting_in(stack, RING, OLD_VERSION)
    yield row
    await typed(stack, "pool", "remove", "--ring", RING)
    await retire_ring(stack, RING)


@pytest.fixture
async def crowd(
    stack: HostedStack, old: Row, kube: KubeClient, deployments: Mirror, applications: Mirror
) -> AsyncIterator[list[Tenant]]:
    """Tenants of the ring, who have nothing yet."""
    async with placed_in(stack, RING), AsyncExitStack() as leaving:
        yield [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(TENANTS)]


async def until_rolled_out(stack: HostedStack) -> Row:
    """The status of the rollout when it is over."""

    async def status() -> Row:
        (found,) = await listed(stack, "rollout", "status")
        return found

    async def is_over() -> bool:
        return bool((await status())["state"] in {"done", "failed", "aborted"})

    await until("the rollout is over", is_over, status)
    return await status()


async def test_version_when_it_rolls_out_then_its_instance_is_installed_tenants_move_to_it_and_the_old_one_is_removed(
    stack: HostedStack, old: Row, crowd: list[Tenant], kube: KubeClient, applications: Mirror
) -> None:
    created = [await tenant.create() for tenant in crowd]
    for tenant in crowd:
        await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    names = {application_name(each) for each in created}

    def places() -> list[str]:
        return sorted(place for place, name in applications.objects if name in names)

    assert places() == [old["namespace"]] * TENANTS
    async with AsyncExitStack() as watching:
        views = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in crowd]
        assert "accepted" in await typed(stack, "rollout", "start", VERSION, "--rings", RING, "--soak", "1s")
        rollout = await until_rolled_out(stack)
        assert rollout["state"] == "done", rollout
        (new,) = await accepting_in(stack, RING, VERSION)
        assert (rollout["oldInstances"], rollout["newInstances"]) == ([old["id"]], [new["id"]])
        assert places() == [new["namespace"]] * TENANTS
        await until_removed(stack, kube, old["id"])
        assert views == [[HEALTHY_VIEW]] * TENANTS
    (pool,) = [each for each in await listed(stack, "pool", "list") if each["ring"] == RING]
    assert (pool["version"], pool["instances"]) == (VERSION, 1)
    await crowd[0].patch("web", path("apps/after"))
    await crowd[0].until_path(created[0], "apps/after")
    await crowd[0].until_status("it is synced", sync__status="Synced", health__status="Healthy")
