"""The fleet of the stack as its operators see it, and its engine namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import NAMESPACE, KubeClient, NotFound
from tests.e2e.operators import listed, of_instances, typed, until_seen

WORKSPACE = "local"
Row = dict[str, Any]


async def instances(stack: HostedStack) -> dict[str, Row]:
    """All that there are and were, by id."""
    return {each["id"]: each for each in await listed(stack, "list", "--retired")}


async def until_shown(stack: HostedStack, instance: str, **expected: object) -> Row:
    """The row of an instance when it has these values."""
    found = await until_seen(
        lambda: instances(stack), lambda shown: expected.items() <= shown.get(instance, {}).items()
    )
    return found[instance]


async def until_accepting(stack: HostedStack, ring: str, version: str) -> Row:
    """The one instance of a ring that a provisioner has installed with this version, when it takes tenants."""
    wanted = {"ring": ring, "wantedVersion": version, "state": "accepting"}

    def accepting(shown: dict[str, Row]) -> list[Row]:
        return [each for each in shown.values() if wanted.items() <= each.items()]

    (row,) = accepting(await until_seen(lambda: instances(stack), lambda shown: bool(accepting(shown))))
    return row


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

        async def answer(instance: str = instance) -> tuple[int, str]:
            ordered = await asyncio.to_thread(of_instances, stack, "retire", instance)
            return ordered.exit_code, ordered.output

        await until_seen(answer, lambda answered: answered[0] == 0)


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
