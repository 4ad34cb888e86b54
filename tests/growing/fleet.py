"""The fleet of the stack as its operators see it, and its engine namespaces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import NAMESPACE, KubeClient, NotFound
from tests.e2e.operators import of_instances, typed

WITHIN_SECONDS, LOOK_EVERY_SECONDS = 180.0, 0.5
WORKSPACE = "local"
Row = dict[str, Any]


async def until(what: str, holds: Callable[[], Awaitable[bool]], seen: Callable[[], Awaitable[object]]) -> None:
    """Return once it does; fail with what was seen if that takes too long."""
    over = asyncio.get_running_loop().time() + WITHIN_SECONDS
    while not await holds():
        assert asyncio.get_running_loop().time() < over, f"{what}: {await seen()}"
        await asyncio.sleep(LOOK_EVERY_SECONDS)


async def listed(stack: HostedStack, *arguments: str) -> list[Row]:
    """What a command of ``gitopsctl engines`` lists."""
    found: list[Row] = json.loads(await typed(stack, *arguments, "-o", "json"))
    return found


async def instances(stack: HostedStack) -> dict[str, Row]:
    """All that there are and were, by id."""
    return {each["id"]: each for each in await listed(stack, "list", "--retired")}


async def until_shown(stack: HostedStack, instance: str, **expected: object) -> Row:
    """The row of an instance when it has these values."""

    async def holds() -> bool:
        return expected.items() <= (await instances(stack)).get(instance, {}).items()

    await until(f"{instance} has {expected}", holds, lambda: instances(stack))
    return (await instances(stack))[instance]


async def accepting_in(stack: HostedStack, ring: str, version: str) -> list[Row]:
    """The instances of a ring that a provisioner has installed with this version, and that take tenants."""
    wanted = {"ring": ring, "wantedVersion": version, "state": "accepting"}
    return [each for each in (await instances(stack)).values() if wanted.items() <= each.items()]


@asynccontextmanager
async def placed_in(stack: HostedStack, ring: str) -> AsyncIterator[None]:
    """Meanwhile tenants are placed on instances of this ring alone, and stay within it."""
    await typed(stack, "assign", WORKSPACE, "--ring", ring)
    try:
        yield
    finally:
        await typed(stack, "unassign", WORKSPACE)


async def retire_ring(stack: HostedStack, ring: str) -> None:
    """Give its instances up, which tenants have left."""
    for instance in [name for name, row in (await instances(stack)).items() if row["ring"] == ring]:

        async def is_retired(instance: str = instance) -> bool:
            return (await asyncio.to_thread(of_instances, stack, "retire", instance)).exit_code == 0

        await until(f"{instance} is retired", is_retired, lambda: instances(stack))


async def is_there(kube: KubeClient, namespace: str) -> bool:
    """Whether there is the namespace."""
    try:
        await kube.get_object(NAMESPACE, None, namespace)
    except NotFound:
        return False
    return True


async def until_removed(stack: HostedStack, kube: KubeClient, instance: str) -> None:
    """Until the provisioner has told that nothing is left of a retired instance; its namespace is gone then."""
    row = await until_shown(stack, instance, state="retired", installation="Removed")
    assert not await is_there(kube, row["namespace"])
