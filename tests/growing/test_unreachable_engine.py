"""An instance that no agent can reach any more: its tenants go on elsewhere, and it gives them up when it is back.

The last test has one retired for good: it is the last of its stack, too.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import APPLICATION, KubeClient, Manifest
from tests.e2e.moving import Mover
from tests.e2e.operators import listed, states, until_seen
from tests.e2e.tenant import USER, Tenant, application_name, path
from tests.e2e.unreachable import out_of_reach

AGENTS = ("agent-1", "agent-2")
EVACUATED_SECONDS, BACK_SECONDS = 120, 120
HELD = "SELECT count(*) FROM engine_resources WHERE engine_instance_id = %s"


async def restart_agents(stack: HostedStack) -> None:
    """Which then know at once what they may not look at."""
    for name in AGENTS:
        await asyncio.to_thread(stack.kill, name)
        await asyncio.to_thread(stack.start, name)


async def rows_shown(stack: HostedStack, instance: str, *arguments: str) -> list[dict[str, Any]]:
    """What a command lists of an instance."""
    return [each for each in await listed(stack, *arguments) if each["instance"] == instance]


async def until_at(applications: Mirror, name: str, namespace: str, seconds: float) -> Manifest:
    await applications.until(f"{name} is in {namespace}", lambda objects: (namespace, name) in objects, seconds)
    found: Manifest = applications.objects[namespace, name]
    return found


async def test_tenants_when_nobody_can_reach_their_instance_then_they_go_on_elsewhere_and_it_releases_them_when_back(
    stack: HostedStack, kube: KubeClient, tenant: Tenant, applications: Mirror
) -> None:
    created = await tenant.create()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    mover, name = Mover(stack, tenant, applications), application_name(created)
    (source,) = mover.places(created)
    target = await mover.target(created)
    former = len(await rows_shown(stack, source, "remedies", "--past"))  # on a busy machine it may have been ill before

    async with out_of_reach(kube, source):
        await restart_agents(stack)
        before = await until_at(applications, name, target, EVACUATED_SECONDS)
        assert [each["cordoned"] for each in await rows_shown(stack, source, "remedies")] == [True]
        await tenant.patch("web", path("apps/meanwhile"))
        await applications.until(
            "the change is on the target",
            lambda objects: objects[target, name]["spec"]["source"]["path"] == "apps/meanwhile",
        )
        await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
        assert (source, name) in applications.objects  # its Argo CD has it still, and no agent can take it away

    await applications.until("it is released", lambda objects: (source, name) not in objects, BACK_SECONDS)
    assert applications.objects[target, name]["metadata"]["uid"] == before["metadata"]["uid"]
    await mover.until_done()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    past = [each["message"].partition(" ")[0] for each in await rows_shown(stack, source, "remedies", "--past")]
    assert past[former : former + 3] == ["Cordon", "ReapplyConfiguration", "Evacuate"]


def identity(found: Manifest) -> dict[str, Any]:
    """What of its metadata nobody but an agent changes, and what a deletion leaves there."""
    return {each: found["metadata"].get(each) for each in ("uid", "finalizers", "labels", "deletionTimestamp")}


async def rows_of(stack: HostedStack, instance: str) -> int:
    """How many objects are still wanted of it, or to be removed."""
    url = stack.environment["DATABASE_OWNER_URL"]
    async with await psycopg.AsyncConnection.connect(url) as database:
        row = await (await database.execute(HELD, (instance,))).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long  # what is left of its rows then is in tests/component/planner
async def test_instance_when_it_is_retired_as_lost_then_nothing_waits_for_it_and_agents_leave_it_alone_if_it_comes_back(
    stack: HostedStack, kube: KubeClient, tenant: Tenant, applications: Mirror
) -> None:
    await until_seen(lambda: listed(stack, "remedies"), lambda rows: not any(each["cordoned"] for each in rows))
    created = await tenant.create()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    mover, name = Mover(stack, tenant, applications), application_name(created)
    (source,) = mover.places(created)
    target = await mover.target(created)

    async def lost(*arguments: str) -> str:
        return str((await mover.typed("retire", source, "--lost", *arguments)).output)

    heard = f"{source}: would be refused, engine instance {source} is heard of: Healthy"
    await until_seen(lambda: lost("--dry-run"), lambda told: told.startswith(heard))
    async with out_of_reach(kube, source):
        await restart_agents(stack)
        await until_at(applications, name, target, EVACUATED_SECONDS)
        await until_seen(mover.step, lambda step: step == "withdrawing")
        left = applications.objects[source, name]
        assert await lost("--stopped") == f"{source}: accepted, moves that end without it: 1\n"
        await mover.until_done()
        await until_seen(lambda: rows_of(stack, source), lambda count: count == 0)
        assert (await states(stack))[source] == "retired"
        assert await listed(stack, "moves") == []
        await until_seen(lambda: rows_shown(stack, source, "remedies"), lambda rows: rows == [])

    await restart_agents(stack)
    await tenant.patch("web", path("apps/after"))
    await applications.until(
        "the change is on the target",
        lambda objects: objects[target, name]["spec"]["source"]["path"] == "apps/after",
    )
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    found = applications.objects[source, name]
    assert (found["spec"], identity(found)) == (left["spec"], identity(left))
    await kube.patch_object(APPLICATION, source, name, {"metadata": {"finalizers": None}}, field_manager=USER)
    await kube.delete_object(APPLICATION, source, name)
