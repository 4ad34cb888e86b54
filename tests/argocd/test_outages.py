"""Argo CD away for a while: what was asked for meanwhile comes about when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from services.cli.dev.hosted import HostedStack
from services.common.kube import KubeClient, Resource
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.operations import until_operation
from tests.argocd.sources import Sources, config_map, endless_hook
from tests.e2e.api import Api
from tests.e2e.tenant import USER, Tenant

JOB = Resource("batch", "v1", "Job", "jobs")
CONTROLLERS = ("argocd-application-controller-1", "argocd-application-controller-2")
REPO_SERVERS = ("argocd-repo-server-1", "argocd-repo-server-2")


@asynccontextmanager
async def without(stack: HostedStack, *processes: str) -> AsyncIterator[None]:
    """While the block runs these processes do not."""
    for name in processes:
        await asyncio.to_thread(stack.kill, name)
    try:
        yield
    finally:
        for name in reversed(processes):
            await asyncio.to_thread(stack.start, name)


async def test_controller_when_restarted_in_the_middle_of_a_sync_then_the_run_is_finished(
    stack: HostedStack, tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    """A controller that has just started may look at an operation before it has read the AppProjects.

    Argo CD then ends the operation with an error, and says why; the run says so too, and the next one succeeds.
    """
    created = await tenant.create(type="manual", source=source(config_map("first"), endless_hook()).spec())
    await api.sync_run("long")
    await until_operation(tenant, created, "Running", "waiting for completion of hook")
    async with without(stack, *CONTROLLERS):
        await complete(deployed.kube, tenant.namespace)
    operation = await api.until_ended("long")
    if operation["phase"] == "Error":
        assert "which does not exist" in operation["message"]
        await api.sync_run("again")
        await until_operation(tenant, created, "Running", "waiting for completion of hook")
        await complete(deployed.kube, tenant.namespace)
        operation = await api.until_ended("again")
    assert (operation["phase"], operation["message"]) == ("Succeeded", "successfully synced (all tasks run)")
    assert deployed.value(tenant.namespace) == "first"


@pytest.mark.parametrize("processes", [CONTROLLERS, REPO_SERVERS, (*CONTROLLERS, *REPO_SERVERS)], ids=len)
async def test_argocd_when_it_was_down_then_everything_asked_for_meanwhile_comes_about(
    stack: HostedStack, tenant: Tenant, api: Api, source: Sources, deployed: Deployed, processes: tuple[str, ...]
) -> None:
    moved, gone, manual = (source(config_map("before", name)) for name in ("moved", "gone", "manual"))
    await tenant.create("moved", source=moved.spec())
    deleted = await tenant.create("gone", source=gone.spec())
    await tenant.create("manual", type="manual", source=manual.spec())
    for name in ("moved", "gone"):
        await tenant.until_status("deployed", name, **HEALTHY)
    async with without(stack, *processes):
        await tenant.create("new", source=source(config_map("new", "new")).spec())
        moved.repository.commit({"other/moved.yaml": "{}"})
        await tenant.patch("moved", {"spec": {"source": {"path": "other"}}})
        await tenant.delete("gone")
        await api.sync_run("meanwhile", "manual")
    await deployed.until(tenant.namespace, "new", "new")
    await deployed.until(tenant.namespace, None, "moved")
    await deployed.until(tenant.namespace, None, "gone")
    await tenant.until_application_gone(deleted)
    await api.until_phase("meanwhile", "Succeeded")
    assert deployed.value(tenant.namespace, "manual") == "before"
    await tenant.until_status("deployed", "new", **HEALTHY)


async def complete(kube: KubeClient, namespace: str) -> None:
    """Do for the hook what a cluster with nodes would do."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": now} for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    name = endless_hook()["metadata"]["name"]
    await kube.patch(JOB, namespace, name, {"status": status}, field_manager=USER, subresource="status")
