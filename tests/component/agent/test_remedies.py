"""Orders of remedies, at a real API server: pods that are older go, once, whichever agent carries it out."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from services.agent.objects.reconciliation import REFRESH, reconciliation_of
from services.common.argocd_names import NAME_LABEL
from services.common.kubernetes import APPLICATION, POD, KubeClient, Manifest
from services.common.messages import REMEDY, Applied, Remedy
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, row

CONTROLLER, REPO_SERVER = "argocd-application-controller", "argocd-repo-server"


def order(remedy: Remedy, number: int) -> dict[str, Any]:
    """A planner's, as its row is streamed."""
    manifest = {"kind": REMEDY, "metadata": {"namespace": "", "name": str(number)}, "number": number, "remedy": remedy}
    nobody = {"workspace": "", "tenant_namespace": "", "lane": ""}
    return row(INSTANCE, manifest) | nobody | {"manifest": json.dumps(manifest)}


def now() -> int:
    """In milliseconds, and a second later than any pod that exists: API servers tell time to the second."""
    return round(time.time() * 1000) + 1000


async def create_pod(kube: KubeClient, namespace: str, name: str, workload: str) -> str:
    """One that no node takes; returns its uid."""
    metadata = {"name": name, "namespace": namespace, "labels": {NAME_LABEL: workload}}
    spec = {"containers": [{"name": "argocd", "image": "example.com/argocd"}], "automountServiceAccountToken": False}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    created = await kube.create_object(POD, manifest, field_manager="statefulset-controller")
    return str(created["metadata"]["uid"])


async def uids(kube: KubeClient, namespace: str) -> set[str]:
    found: set[str] = set()
    async for page in kube.list_pages(POD, namespace, selector=NAME_LABEL):
        found |= {each["metadata"]["uid"] for each in page.items}
    return found


async def test_restart_when_ordered_then_older_pods_of_that_workload_go_once_whoever_carries_it_out(
    start_agent: StartAgent, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    await create_pod(kube, namespace, f"{CONTROLLER}-0", CONTROLLER)
    other = await create_pod(kube, namespace, f"{REPO_SERVER}-0", REPO_SERVER)
    agent = start_agent({INSTANCE: namespace})
    number = now()
    restart = order(Remedy.RESTART_CONTROLLER, number)
    engine_log.write(restart)
    until(lambda: observations.of(str(number)) == [Applied(restart["digest"])])
    assert await uids(kube, namespace) == {other}

    until(lambda: time.time() * 1000 > number)  # what is made from here on is younger
    again = await create_pod(kube, namespace, f"{CONTROLLER}-0", CONTROLLER)
    agent.kill()
    start_agent({INSTANCE: namespace})
    until(lambda: len(observations.of(str(number))) == 2)
    assert await uids(kube, namespace) == {other, again}


async def test_comparison_when_it_is_asked_for_then_the_api_server_has_when_whoever_asks_and_whatever_else_is_written(
    kube: KubeClient, namespace: str
) -> None:
    """By that an agent that takes an instance over knows how long it has been asked for in vain."""
    name = "asked-for"

    async def annotate(writer: str, annotations: Manifest) -> Manifest:
        patch = {"metadata": {"annotations": annotations}}
        return await kube.patch_object(APPLICATION, namespace, name, patch, field_manager=writer)

    spec = {
        "project": "default",
        "source": {"repoURL": "https://git.example/shop", "path": "."},
        "destination": {"name": "in-cluster", "namespace": "shop"},
    }
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": APPLICATION.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    created = await kube.create_object(APPLICATION, manifest, field_manager="agent")
    assert reconciliation_of(created).asked_at is None

    before = datetime.now(UTC).replace(microsecond=0)
    asked_at = reconciliation_of(await annotate("argocd-server", {REFRESH: "normal"})).asked_at
    assert asked_at is not None
    assert before <= asked_at <= datetime.now(UTC)

    until(lambda: datetime.now(UTC) >= asked_at + timedelta(seconds=1))  # the API server tells time to the second
    assert reconciliation_of(await annotate("agent", {"other": "thing"})).asked_at == asked_at
    assert reconciliation_of(await annotate("argocd-server", {REFRESH: "normal"})).asked_at == asked_at
    assert reconciliation_of(await annotate("argocd-application-controller", {REFRESH: None})).asked_at is None
    asked_again_at = reconciliation_of(await annotate("argocd-server", {REFRESH: "normal"})).asked_at
    assert asked_again_at is not None
    assert asked_again_at > asked_at
