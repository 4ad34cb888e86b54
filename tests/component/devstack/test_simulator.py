"""What the simulator does to Applications of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from devstack.argocd_simulator.simulator import Pace, Simulator
from services.common.kubernetes import APPLICATION, Changed, Deleted, KubeClient, ListCompleted, Seen, reflect

SECONDS = 60.0
TESTS = "tests"
RUN = [{"name": "gitops-sync-run", "value": "run-1"}]


@pytest.fixture(autouse=True)
async def simulator(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    """Plays Argo CD in the test's namespace."""
    made = Simulator(kube, lambda place: reflect(kube, APPLICATION, place), [namespace], Pace(sync_seconds=0.05))
    running = asyncio.create_task(made.run())
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def make(kube: KubeClient, namespace: str, path: str = "manifests", automated: bool = False) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": APPLICATION.api_version,
        "kind": APPLICATION.kind,
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.com/repo", "path": path},
            "destination": {"name": "in-cluster", "namespace": "team-a"},
        },
    }
    if automated:
        manifest["spec"]["syncPolicy"] = {"automated": {}}
    await kube.create_object(APPLICATION, manifest, field_manager=TESTS)


async def edit(kube: KubeClient, namespace: str, change: dict[str, Any]) -> None:
    await kube.patch_object(APPLICATION, namespace, "app", change, field_manager=TESTS)


async def until(kube: KubeClient, namespace: str, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The Application once it is so."""
    async with asyncio.timeout(SECONDS), aclosing(reflect(kube, APPLICATION, namespace)) as events:
        async for event in events:
            if isinstance(event, Seen | Changed) and found(event.object):
                return event.object
    raise AssertionError("the watch ended")


async def until_gone(kube: KubeClient, namespace: str) -> None:
    async with asyncio.timeout(SECONDS), aclosing(reflect(kube, APPLICATION, namespace)) as events:
        async for event in events:
            if isinstance(event, Deleted) or event == ListCompleted(0):
                return


def phase(application: dict[str, Any]) -> str:
    return str((application.get("status", {}).get("operationState") or {}).get("phase", ""))


def synced(application: dict[str, Any]) -> str:
    return str((application.get("status", {}).get("sync") or {}).get("status", ""))


async def test_automated_application_when_made_then_it_is_synced(kube: KubeClient, namespace: str) -> None:
    await make(kube, namespace, automated=True)
    found = await until(kube, namespace, lambda app: synced(app) == "Synced")
    assert phase(found) == "Succeeded"
    assert "operation" not in found


async def test_manual_application_when_an_operation_asks_then_it_is_synced_to_that_revision(
    kube: KubeClient, namespace: str
) -> None:
    await make(kube, namespace)
    await until(kube, namespace, lambda app: synced(app) == "OutOfSync")
    await edit(kube, namespace, {"operation": {"sync": {"revision": "a" * 40}, "info": RUN}})
    found = await until(kube, namespace, lambda app: "operation" not in app)
    state = found["status"]["operationState"]
    assert (state["phase"], state["syncResult"]["revision"]) == ("Succeeded", "a" * 40)
    assert state["operation"]["info"] == RUN
    assert synced(found) == "Synced"


async def test_slow_sync_when_it_is_terminated_then_it_fails(kube: KubeClient, namespace: str) -> None:
    await make(kube, namespace, "simulate/slow-sync")
    await edit(kube, namespace, {"operation": {"sync": {}, "info": RUN}})
    found = await until(kube, namespace, lambda app: phase(app) == "Running")
    assert found["operation"]["info"] == RUN
    await edit(kube, namespace, {"status": {"operationState": {"phase": "Terminating"}}})
    found = await until(kube, namespace, lambda app: "operation" not in app)
    state = found["status"]["operationState"]
    assert (state["phase"], state["message"]) == ("Failed", "Operation terminated")


async def test_failing_sync_when_asked_for_then_it_fails(kube: KubeClient, namespace: str) -> None:
    await make(kube, namespace, "simulate/failing-sync")
    await edit(kube, namespace, {"operation": {"sync": {}}})
    found = await until(kube, namespace, lambda app: phase(app) == "Failed")
    assert "simulate/failing-sync" in found["status"]["operationState"]["message"]


async def test_deleted_application_when_it_has_argo_cds_finalizer_then_it_goes(
    kube: KubeClient, namespace: str
) -> None:
    await make(kube, namespace, automated=True)
    await until(kube, namespace, lambda app: synced(app) == "Synced")
    await edit(kube, namespace, {"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io/background"]}})
    await kube.delete_object(APPLICATION, namespace, "app")
    await until_gone(kube, namespace)
