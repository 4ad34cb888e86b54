"""A tenant goes from one engine instance to another while it is used, and while processes are killed."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.moving import MOVED_SECONDS, Mover
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, path
from tests.e2e.test_former_tenants import end_namespace

LOOK_SECONDS = 0.05
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
    async with seen_by_user(tenant) as seen:
        target = await mover.order(created)
        number, last = 0, ""
        async for step in mover.steps():
            number, last = number + 1, step
            if killed:
                await asyncio.to_thread(stack.kill, killed[number % len(killed)])
                await asyncio.to_thread(stack.start, killed[number % len(killed)])
            assert len(mover.places(created)) <= 1
        assert await seen.changes(BY_SIMULATOR) == []
    assert (last, mover.places(created)) == ("done", {target})
    await tenant.patch("web", path("apps/after"))
    await tenant.until_path(created, "apps/after")


@pytest.mark.parametrize("early", [("preparing",), ("preparing", "pausing")], ids=["pausing", "releasing"])
async def test_tenant_when_its_namespace_is_deleted_while_it_is_moved_then_the_move_ends_and_nothing_is_left_anywhere(
    tenant: Tenant, mover: Mover, projects: Mirror, early: tuple[str, ...]
) -> None:
    created = await tenant.create()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    project = (await tenant.application_of(created))["spec"]["project"]
    await mover.order(created)
    await mover.until_past(*early)
    await end_namespace(tenant.kube, tenant.namespace, (GITOPS_DEPLOYMENT, "web"))
    async for _ in mover.steps():
        pass
    await tenant.until_application_gone(created)
    await projects.until("its projects are gone", lambda objects: all(name != project for _, name in objects))
    over = asyncio.get_running_loop().time() + MOVED_SECONDS
    while "there is no tenant" not in str((shown := await mover.typed("placement", tenant.namespace)).exception):
        assert asyncio.get_running_loop().time() < over, shown.output
        await asyncio.sleep(LOOK_SECONDS)


async def test_order_when_the_tenant_is_there_or_the_target_is_not_then_it_says_so(
    tenant: Tenant, mover: Mover
) -> None:
    created = await tenant.create()
    (here,) = {(await tenant.application_of(created))["metadata"]["namespace"]}
    there = await mover.typed("move", tenant.namespace, "--to", here)
    assert there.stdout == f"local/{tenant.namespace}: unchanged, it is there\n"
    nowhere = await mover.typed("move", tenant.namespace, "--to", "nowhere")
    rule = "there is no engine instance 'nowhere'; 'gitopsctl engines list' shows them"
    refusal = f"local/{tenant.namespace}: refused, {rule}\n"
    assert (nowhere.exit_code, nowhere.stderr) == (1, refusal)
    tried = await mover.typed("move", tenant.namespace, "--to", await mover.target(created), "--dry-run")
    assert tried.stdout == f"local/{tenant.namespace}: would be accepted\n"
    back = await mover.typed("cancel-move", tenant.namespace)
    assert back.stdout == f"local/{tenant.namespace}: unchanged, it is not being moved\n"
