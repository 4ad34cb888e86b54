"""Load grows, and a new instance takes tenants; it shrinks, and the instance and its namespace go."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from services.planner.domain.fleet.pools.pool_rows import namespace_of
from tests.e2e.operators import sole_instance, typed
from tests.e2e.tenant import application_name, fresh_tenant
from tests.growing.conftest import CANARIES, VERSION
from tests.growing.fleet import is_there, retire_ring, until_removed, until_shown

FIRST, SECOND, *_ = CANARIES
NAMESPACES = (namespace_of(FIRST), namespace_of(SECOND))
POOL = ("--ring", "canary", "--min", "1", "--max", "2", "--spare", "0", "--capacity", "4", "--version", VERSION)

pytestmark = pytest.mark.usefixtures("provisioner")


async def test_fleet_when_its_load_grows_and_shrinks_then_instances_come_and_go_with_their_namespaces(
    stack: HostedStack, kube: KubeClient, deployments: Mirror, applications: Mirror
) -> None:
    await typed(stack, "pool", "set", *POOL)
    await until_shown(stack, FIRST, state="accepting")
    assert await is_there(kube, NAMESPACES[0])

    async with AsyncExitStack() as leaving:
        crowd = [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(5)]
        with sole_instance(stack, FIRST):
            created = [await tenant.create() for tenant in crowd[:4]]
            for tenant in crowd[:4]:
                await tenant.until_status("it is synced", sync__status="Synced")
            await until_shown(stack, FIRST, state="full")
            await until_shown(stack, SECOND, state="accepting")
            created.append(await crowd[4].create())
            await crowd[4].until_status("it is synced", sync__status="Synced")
        places = {name: place for place, name in applications.objects}
        assert [places[application_name(each)] for each in created] == [NAMESPACES[0]] * 4 + [NAMESPACES[1]]

        for tenant in crowd[1:4]:
            await tenant.delete()
        # Both carry as much by now: then it is the first by its name that is given up.
        await until_shown(stack, FIRST, state="retired")
        await until_shown(stack, SECOND, state="accepting")
        moved = application_name(created[0])
        await applications.until("the tenant was moved", lambda objects: (NAMESPACES[1], moved) in objects)
        await crowd[0].until_status("it is synced still", sync__status="Synced")

    await until_removed(stack, kube, FIRST)
    await typed(stack, "pool", "remove", "--ring", "canary")
    await retire_ring(stack, "canary")


async def test_instance_when_no_provisioner_knows_its_version_then_it_fails_and_operators_are_told_what_to_do(
    stack: HostedStack,
) -> None:
    await typed(stack, "add", "unknown", "--version", "9.9.9")
    row = await until_shown(stack, "unknown", state="failed")
    assert "there are no manifests of Argo CD 9.9.9, but of 3.1.16, 3.1.16-large, 3.2.11" in row["stateMessage"]
    await typed(stack, "retire", "unknown")
