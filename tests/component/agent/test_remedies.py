"""Orders of remedies, at a real API server: pods that are older go, once, whichever agent carries it out."""

from __future__ import annotations

import json
import time
from typing import Any

from services.common.argocd_names import NAME_LABEL
from services.common.kubernetes import POD, KubeClient
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
