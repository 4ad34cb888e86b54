"""Every service can be measured and probed, and a change can be followed by its trace."""

from __future__ import annotations

import re

import httpx2
import pytest

from services.cli.dev.hosted import HostedStack
from tests.e2e.tenant import Tenant

SERVICES = ("watcher", "planner", "agent-1", "agent-2")


def get(stack: HostedStack, service: str, path: str) -> httpx2.Response:
    ports = {item["name"]: item["ports"] for item in stack.processes()}
    return httpx2.get(f"http://127.0.0.1:{ports[service]['metrics']}{path}")


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_service_when_it_works_then_its_probes_say_so(stack: HostedStack, service: str, path: str) -> None:
    answer = get(stack, service, path)
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_deployment_when_synced_then_each_hop_has_measured_it(stack: HostedStack, tenant: Tenant) -> None:
    await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    metrics = {service: get(stack, service, "/metrics").text for service in SERVICES}
    agents = metrics["agent-1"] + metrics["agent-2"]
    assert 'gitops_end_to_end_seconds_count{kind="Application",stage="applied"}' in agents
    assert 'gitops_end_to_end_seconds_count{kind="GitOpsDeployment",stage="status"}' in metrics["watcher"]
    assert 'gitops_messages_total{direction="sent",service="watcher",topic="gitops.commands"}' in metrics["watcher"]
    assert 'gitops_hop_seconds_count{service="planner",topic="gitops.commands"}' in metrics["planner"]
    assert 'gitops_batch_size_messages_count{service="planner"}' in metrics["planner"]
    for service in SERVICES:
        assert re.search(r"^gitops_consumer_lag_messages\{.*\} \d", metrics[service], re.MULTILINE), service
