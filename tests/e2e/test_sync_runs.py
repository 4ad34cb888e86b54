"""GitOpsDeploymentSyncRun: each runs once, in order, whatever is killed in between."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import APPLICATION, Changed, KubeClient, Manifest, Rejected, reflect
from services.kinds.sync_run.model import SYNC_RUN
from tests.e2e.api import Api
from tests.e2e.tenant import USER, Tenant

MANUAL = {"type": "manual"}


async def test_sync_when_run_then_a_manual_deployment_is_synced_and_the_run_tells(api: Api, tenant: Tenant) -> None:
    await tenant.create(**MANUAL)
    await tenant.until_status("OutOfSync", sync__status="OutOfSync")
    await api.sync_run("now")
    operation = await api.until_phase("now", "Succeeded")
    assert operation["revision"]
    assert operation["startedAt"] <= operation["finishedAt"]
    await tenant.until_status("Synced", sync__status="Synced")


async def test_sync_when_asked_for_before_its_deployment_exists_then_it_waits_for_it(api: Api, tenant: Tenant) -> None:
    await api.sync_run("early")
    await api.until_sync_error("early", "Unable to retrieve GitOpsDeployment 'web' referenced by")
    await tenant.create(**MANUAL)
    await api.until_phase("early", "Succeeded")
    assert api.conditions(api.kinds.sync_runs, "early")["ErrorOccurred"] == ("False", "")


async def test_sync_when_its_deployment_is_automated_then_it_is_refused(api: Api, tenant: Tenant) -> None:
    await tenant.create()
    await api.sync_run("never")
    await api.until_sync_error("never", "Syncing a GitOpsDeployment with Automated sync policy is not allowed")


async def test_sync_when_one_fails_then_the_next_runs(api: Api, tenant: Tenant) -> None:
    await tenant.create(**MANUAL, source={"path": "simulate/failing-sync"})
    await api.sync_run("first")
    await api.until_phase("first", "Failed")
    await tenant.patch("web", {"spec": {"source": {"path": "apps/web"}}})
    await api.sync_run("second")
    await api.until_phase("second", "Succeeded")


async def test_sync_when_deleted_while_it_runs_then_it_is_terminated_and_the_next_runs(
    api: Api, tenant: Tenant
) -> None:
    created = await tenant.create(**MANUAL, source={"path": "simulate/slow-sync"})
    await api.sync_run("slow")
    await tenant.until_operation(created, "Running")  # the run says so as soon as the sync was ordered
    await api.delete(SYNC_RUN, "slow")
    await tenant.until_operation(created, "Failed")
    await tenant.patch("web", {"spec": {"source": {"path": "apps/web"}}})
    await api.sync_run("after")
    await api.until_phase("after", "Succeeded")


async def test_sync_when_its_fields_change_then_the_api_server_refuses_it(
    api: Api, tenant: Tenant, kube: KubeClient
) -> None:
    await tenant.create(**MANUAL)
    await api.sync_run("fixed", revisionID="main")
    for change, message in (
        ({"gitopsDeploymentName": "other"}, "deployment name field is immutable"),
        ({"revisionID": "v2"}, "revision change is not supported"),
    ):
        with pytest.raises(Rejected, match=message):
            await kube.patch_object(SYNC_RUN, api.namespace, "fixed", {"spec": change}, field_manager=USER)


async def test_syncs_when_processes_are_killed_then_each_runs_once_and_in_order(
    stack: HostedStack, api: Api, tenant: Tenant, kube: KubeClient
) -> None:
    created = await tenant.create(**MANUAL)
    application = await tenant.application_of(created)
    started: list[str] = []
    watching = asyncio.create_task(_record_starts(kube, application, started))
    runs = [f"run-{number:02d}" for number in range(12)]
    uids = {}
    for number, name in enumerate(runs):
        uids[name] = (await api.sync_run(name, revisionID=f"rev-{number}"))["metadata"]["uid"]
    for victim in ("agent-1", "planner", "agent-2", "watcher"):
        await asyncio.to_thread(stack.kill, victim)
        await asyncio.to_thread(stack.start, victim)
    for name in runs:
        await api.until_phase(name, "Succeeded", timeout_seconds=120)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert started == sorted(set(started), key=started.index), "a run was started twice"
    asked = [uids[name] for name in runs]
    assert [run for run in asked if run in started] == started, "runs started in another order"


async def _record_starts(kube: KubeClient, application: Manifest, started: list[str]) -> None:
    """Every run that the Application's operation field ever named, as it changes; what is seen need not be all."""
    meta = application["metadata"]
    async for event in reflect(kube, APPLICATION, meta["namespace"]):
        match event:
            case Changed(item) if item["metadata"]["name"] == meta["name"]:
                info = item.get("operation", {}).get("info") or []
                run = next((entry["value"] for entry in info if entry["name"] == "gitops-sync-run"), None)
                if run is not None and (not started or started[-1] != run):
                    started.append(run)
            case _:
                continue
