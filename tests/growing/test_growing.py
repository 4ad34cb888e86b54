"""Load grows, and a new instance takes tenants; it shrinks, and the instance and its namespace go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import NAMESPACE, KubeClient, NotFound
from tests.component.agent.worker import Worker
from tests.e2e.operators import of_instances, sole_instance
from tests.e2e.tenant import application_name, fresh_tenant
from tests.growing.conftest import INSTANCES, NAMESPACES, VERSION

WITHIN_SECONDS, LOOK_EVERY_SECONDS = 180.0, 0.5
FIRST, SECOND = INSTANCES
POOL = ("--ring", "canary", "--min", "1", "--max", "2", "--spare", "0", "--capacity", "4", "--version", VERSION)


async def until(what: str, holds: Callable[[], bool], seen: Callable[[], object]) -> None:
    """Return once it does; fail with what was seen if that takes too long."""
    over = asyncio.get_running_loop().time() + WITHIN_SECONDS
    while not await asyncio.to_thread(holds):
        assert asyncio.get_running_loop().time() < over, f"{what}: {await asyncio.to_thread(seen)}"
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def instances(stack: HostedStack) -> dict[str, dict[str, Any]]:
    """The provisioned ones, as operators see them."""
    listed = json.loads(of_instances(stack, "list", "--retired", "-o", "json").stdout)
    return {each["id"]: each for each in listed if each["id"] in INSTANCES}


async def until_states(stack: HostedStack, **states: str) -> None:
    """Until the instances that are named so have these states."""
    wanted = dict(zip(INSTANCES, states.values(), strict=False))

    def holds() -> bool:
        found = instances(stack)
        return all(name in found and found[name]["state"] == state for name, state in wanted.items())

    await until(f"instances are {wanted}", holds, lambda: instances(stack))


async def is_there(kube: KubeClient, namespace: str) -> bool:
    """Whether there is the namespace."""
    try:
        await kube.get_object(NAMESPACE, None, namespace)
    except NotFound:
        return False
    return True


async def test_fleet_when_its_load_grows_and_shrinks_then_instances_come_and_go_with_their_namespaces(
    stack: HostedStack, provisioner: Worker, kube: KubeClient, deployments: Mirror, applications: Mirror
) -> None:
    await until("the provisioner is ready", lambda: provisioner.is_ready, lambda: provisioner.log.read_text()[-2000:])
    set_ = await asyncio.to_thread(of_instances, stack, "pool", "set", *POOL)
    assert set_.exit_code == 0, set_.output
    await until_states(stack, first="accepting")
    assert await is_there(kube, NAMESPACES[0])

    async with AsyncExitStack() as leaving:
        crowd = [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(5)]
        with sole_instance(stack, FIRST):
            created = [await tenant.create() for tenant in crowd[:4]]
            for tenant in crowd[:4]:
                await tenant.until_status("it is synced", sync__status="Synced")
            await until_states(stack, first="full", second="accepting")
            created.append(await crowd[4].create())
            await crowd[4].until_status("it is synced", sync__status="Synced")
        places = {name: place for place, name in applications.objects}
        assert [places[application_name(each)] for each in created] == [NAMESPACES[0]] * 4 + [NAMESPACES[1]]

        for tenant in crowd[1:4]:
            await tenant.delete()
        # Both carry as much by now: then it is the first by its name that is given up.
        await until_states(stack, first="retired", second="accepting")
        moved = application_name(created[0])
        await applications.until("the tenant was moved", lambda objects: (NAMESPACES[1], moved) in objects)
        await crowd[0].until_status("it is synced still", sync__status="Synced")

    over = asyncio.get_running_loop().time() + WITHIN_SECONDS
    while await is_there(kube, NAMESPACES[0]):
        assert asyncio.get_running_loop().time() < over, instances(stack)[FIRST]
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    await until(
        "the removal is told",
        lambda: json.loads(of_instances(stack, "show", FIRST, "-o", "json").stdout)[0]["installation"] == "Removed",
        lambda: of_instances(stack, "show", FIRST).stdout,
    )
    removed = await asyncio.to_thread(of_instances, stack, "pool", "remove", "--ring", "canary")
    assert removed.exit_code == 0, removed.output
    await asyncio.to_thread(of_instances, stack, "drain", SECOND)


async def test_instance_when_no_provisioner_knows_its_version_then_it_fails_and_operators_are_told_what_to_do(
    stack: HostedStack, provisioner: Worker
) -> None:
    assert provisioner.is_ready
    added = await asyncio.to_thread(of_instances, stack, "add", "unknown", "--version", "9.9.9")
    assert added.exit_code == 0, added.output

    def row() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(of_instances(stack, "show", "unknown", "-o", "json").stdout)[0]
        return found

    await until("it has failed", lambda: row()["state"] == "failed", row)
    assert f"there are no manifests of Argo CD 9.9.9, but of {VERSION}" in row()["stateMessage"]
    retired = await asyncio.to_thread(of_instances, stack, "retire", "unknown")
    assert retired.exit_code == 0, retired.output
