"""What tenants deploy becomes pods, and the status says how these are."""

from __future__ import annotations

from collections.abc import Callable

from devstack.components.stack import ENGINE_NAMESPACES
from services.common.kubernetes import Manifest
from tests.argocd.deployed import HEALTHY
from tests.argocd.sources import Source
from tests.e2e.tenant import Tenant
from tests.node.kubectl import Kubectl, is_ready, read_metrics

RUNS = "localhost/pause:1"
MISSING = "localhost/nothing:1"
STARTED_SECONDS = 60
"""Pods are started within it, on a busy machine, too."""
DEADLINE_SECONDS = 10
"""Of a rollout: what is not there by then is degraded."""


def workload(image: str) -> Manifest:
    """A Deployment of two pods."""
    labels = {"app": "web"}
    containers = [{"name": "web", "image": image, "imagePullPolicy": "IfNotPresent"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "progressDeadlineSeconds": DEADLINE_SECONDS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def pods(kubectl: Kubectl, tenant: Tenant) -> list[bool]:
    """Of what the tenant has deployed, whether each is ready."""
    found = kubectl.get("pods", f"--namespace={tenant.namespace}", "--selector=app=web")["items"]
    return [is_ready(pod) for pod in found]


async def test_workload_when_its_pods_run_then_it_is_healthy(
    tenant: Tenant, kubectl: Kubectl, source: Callable[..., Source]
) -> None:
    await tenant.create(source=source(workload(RUNS)).spec())
    await tenant.until_status("deployed", timeout_seconds=STARTED_SECONDS, **HEALTHY)
    assert pods(kubectl, tenant) == [True, True]


async def test_workload_when_its_pods_do_not_run_then_it_is_degraded(
    tenant: Tenant, kubectl: Kubectl, source: Callable[..., Source]
) -> None:
    await tenant.create(source=source(workload(MISSING)).spec())
    expected = {"sync__status": "Synced", "health__status": "Degraded"}
    status = await tenant.until_status("not running", timeout_seconds=STARTED_SECONDS, **expected)
    assert pods(kubectl, tenant) == [False, False]
    assert [item["health"]["status"] for item in status["resources"]] == ["Degraded"]


def test_agents_when_argocd_is_installed_as_operators_do_then_nothing_that_they_ask_of_it_is_missing(
    kubectl: Kubectl,
) -> None:
    told = [read_metrics(kubectl, pod["metadata"]["name"]).splitlines() for pod in kubectl.pods_of("agent")]
    counted = ("gitops_engine_unmet_requirements{", "gitops_engine_refused{")
    seen = {line for lines in told for line in lines if line.startswith(counted)}
    assert seen == {f'{name}instance="{engine}"}} 0.0' for name in counted for engine in ENGINE_NAMESPACES}
