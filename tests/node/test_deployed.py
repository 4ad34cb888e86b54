"""Our services from k8s/ as pods."""

from __future__ import annotations

import pytest

from tests.e2e.tenant import Tenant
from tests.node.kubectl import OURS, Kubectl, is_ready, restarts

pytestmark = pytest.mark.short

PODS = {"watcher": 2, "planner": 2, "agent": 2, "connector-keeper": 1}


@pytest.mark.parametrize("name", PODS)
def test_service_when_the_node_is_up_then_all_its_pods_are_ready_at_their_first_start(
    kubectl: Kubectl, name: str
) -> None:
    pods = kubectl.pods_of(name)
    assert [is_ready(pod) for pod in pods] == [True] * PODS[name]
    assert [restarts(pod) for pod in pods] == [0] * PODS[name]


async def test_deployment_when_created_then_it_is_deployed_and_says_so(tenant: Tenant) -> None:
    created = await tenant.create()
    application = await tenant.application_of(created)
    assert application["spec"]["source"]["path"] == "apps/web"
    await tenant.until_status("deployed", sync__status="Synced", health__status="Healthy")


async def test_deployment_when_argocd_cannot_compare_it_then_its_condition_says_why(tenant: Tenant) -> None:
    await tenant.create(source={"path": "simulate/comparison-error"})
    condition = await tenant.until_condition("ComparisonError", "True")
    assert condition["message"]


def test_namespace_when_a_pod_wants_more_than_restricted_then_it_is_refused(kubectl: Kubectl) -> None:
    refused = kubectl.attempt("run", "intruder", f"--namespace={OURS}", "--image=localhost/pause:1")
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr
