"""A tenant goes from one engine instance to another while it is used, and while processes are killed."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from tests.e2e.moving import HEALTHY_VIEW, Mover, seen_by_user
from tests.e2e.tenant import Tenant, path

KILLED = {"nothing": (), "everything": ("planner", "agent-1", "agent-2")}
"""In turn."""


@pytest.fixture
def mover(stack: HostedStack, tenant: Tenant, applications: Mirror) -> Mover:
    """Of the test's tenant."""
    return Mover(stack, tenant, applications)


@pytest.mark.parametrize("killed", KILLED.values(), ids=KILLED)
async def test_tenant_when_moved_then_its_deployment_is_on_the_target_and_its_user_has_noticed_nothing(
    stack: HostedStack, tenant: Tenant, mover: Mover, killed: tuple[str, ...]
) -> None:
    """At each step that is seen, one of the processes is killed, and started again."""
    created = await tenant.create()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    async with seen_by_user(tenant) as views:
        target = await mover.order(created)
        number, last = 0, ""
        async for step in mover.steps():
            number, last = number + 1, step
            if killed:
                await asyncio.to_thread(stack.kill, killed[number % len(killed)])
                await asyncio.to_thread(stack.start, killed[number % len(killed)])
            assert len(mover.places(created)) <= 1
    assert (last, mover.places(created), views) == ("done", {target}, [HEALTHY_VIEW])
    await tenant.patch("web", path("apps/after"))
    await tenant.until_path(created, "apps/after")


async def test_order_when_the_tenant_is_there_or_the_target_is_not_then_it_says_so(
    tenant: Tenant, mover: Mover
) -> None:
    created = await tenant.create()
    (here,) = {(await tenant.application_of(created))["metadata"]["namespace"]}
    there = await mover.typed("move", tenant.namespace, "--to", here)
    assert there.stdout == f"local/{tenant.namespace}: unchanged, it is there\n"
    nowhere = await mover.typed("move", tenant.namespace, "--to", "nowhere")
    refusal = f"local/{tenant.namespace}: refused, there is no engine instance 'nowhere'\n"
    assert (nowhere.exit_code, nowhere.stderr) == (1, refusal)
    tried = await mover.typed("move", tenant.namespace, "--to", await mover.target(created), "--dry-run")
    assert tried.stdout == f"local/{tenant.namespace}: would be accepted\n"
    back = await mover.typed("cancel-move", tenant.namespace)
    assert back.stdout == f"local/{tenant.namespace}: unchanged, it is not being moved\n"
