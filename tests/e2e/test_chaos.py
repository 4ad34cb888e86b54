"""Nothing acknowledged is ever lost, whichever process is killed in the middle of a burst."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import APPLICATION, Manifest
from tests.e2e.tenant import Tenant, application_name, find

BURST = 60
RECOVERY_SECONDS = 120


async def create_burst(tenant: Tenant) -> list[Manifest]:
    return list(await asyncio.gather(*(tenant.create(f"app-{number:03d}") for number in range(BURST))))


async def until_all_applied(tenant: Tenant, created: list[Manifest]) -> None:
    names = [application_name(item) for item in created]
    await tenant.applications.until(
        "every deployment has its Application",
        lambda objects: all(find(objects, name) is not None for name in names),
        RECOVERY_SECONDS,
    )


async def until_all_synced(tenant: Tenant, created: list[Manifest]) -> None:
    names = [item["metadata"]["name"] for item in created]
    await tenant.deployments.until(
        "every deployment is Synced",
        lambda _: all(tenant.status(name).get("sync", {}).get("status") == "Synced" for name in names),
        RECOVERY_SECONDS,
    )


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("planner", marks=pytest.mark.long),
        "watcher",
        pytest.param("agent-1", marks=pytest.mark.long),
        pytest.param("agent-2", marks=pytest.mark.long),
        pytest.param("connect", marks=pytest.mark.long),
        "kafka",
        pytest.param("registry", marks=pytest.mark.long),
        "postgres",
    ],
)
async def test_process_when_killed_in_a_burst_then_nothing_is_missing_afterwards(
    stack: HostedStack, tenant: Tenant, victim: str
) -> None:
    burst = asyncio.create_task(create_burst(tenant))
    await tenant.deployments.until(
        "the burst is under way",
        lambda objects: sum(namespace == tenant.namespace for namespace, _ in objects) > BURST // 3,
    )
    await asyncio.to_thread(stack.kill, victim)
    created = await burst
    await asyncio.to_thread(stack.start, victim)
    await until_all_applied(tenant, created)
    await until_all_synced(tenant, created)


async def test_api_server_when_killed_right_after_a_burst_then_nothing_is_missing_afterwards(
    stack: HostedStack, tenant: Tenant
) -> None:
    created = await create_burst(tenant)
    await asyncio.to_thread(stack.kill, "kube-apiserver")
    await asyncio.to_thread(stack.start, "kube-apiserver")
    await until_all_applied(tenant, created)
    await until_all_synced(tenant, created)


async def test_agents_when_one_is_killed_then_the_other_takes_over_and_gives_back(
    stack: HostedStack, tenant: Tenant
) -> None:
    for victim in ("agent-1", "agent-2"):
        await asyncio.to_thread(stack.kill, victim)
        created = await tenant.create(f"without-{victim}")
        await until_all_applied(tenant, [created])
        await asyncio.to_thread(stack.start, victim)
    created = await tenant.create("with-both")
    await until_all_applied(tenant, [created])


async def test_deletion_when_the_watcher_was_away_then_the_application_goes_once_it_is_back(
    stack: HostedStack, tenant: Tenant
) -> None:
    kept, deleted = await tenant.create("kept"), await tenant.create("deleted")
    await until_all_applied(tenant, [kept, deleted])
    await asyncio.to_thread(stack.kill, "watcher")
    await tenant.delete("deleted")
    await asyncio.to_thread(stack.start, "watcher")
    await tenant.until_application_gone(deleted, RECOVERY_SECONDS)
    assert find(tenant.applications.objects, application_name(kept)) is not None


async def test_drift_when_no_agent_ran_then_it_is_repaired_once_one_is_back(stack: HostedStack, tenant: Tenant) -> None:
    created = await tenant.create()
    application = await tenant.application_of(created)
    identity = (application["metadata"]["namespace"], application_name(created))
    for agent in ("agent-1", "agent-2"):
        await asyncio.to_thread(stack.kill, agent)
    edited = await tenant.kube.patch_object(
        APPLICATION, *identity, {"spec": {"project": "default"}}, field_manager="intruder"
    )
    version = int(edited["metadata"]["resourceVersion"])
    for agent in ("agent-1", "agent-2"):
        await asyncio.to_thread(stack.start, agent)
    await tenant.applications.until(
        "the project is the tenant's again",
        lambda objects: (
            (live := objects.get(identity)) is not None
            and live["spec"]["project"] != "default"
            and int(live["metadata"]["resourceVersion"]) > version
        ),
        RECOVERY_SECONDS,
    )
