"""Remedies that agents carry out, at an Argo CD whose pods a kubelet runs: it works on, with what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from devstack.harness.hosted import HostedStack
from services.common.messages import Remedy
from tests.argocd.deployed import SETTLED
from tests.argocd.sources import Source, config_map
from tests.e2e.operators import listed
from tests.e2e.remedy_orders import remedy_ordered
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant
from tests.node.kubectl import Kubectl, is_ready, until
from tests.node_argocd.next_commit import DEPLOYED_SECONDS, deploy_next_commit

WORKLOADS = {Remedy.RESTART_REPO_SERVER: "argocd-repo-server", Remedy.FLUSH_CACHE: "argocd-redis"}
"""How ``RestartController`` helps is shown by one that hangs."""


@pytest.mark.parametrize(("remedy", "workload"), WORKLOADS.items(), ids=WORKLOADS.values())
async def test_workload_when_its_restart_is_ordered_then_other_pods_are_ready_and_argocd_goes_on(
    stack: HostedStack,
    kubectl: Kubectl,
    tenant: Tenant,
    source: Callable[..., Source],
    remedy: Remedy,
    workload: str,
) -> None:
    repository = source(config_map("before"))
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    namespace = (await tenant.application_of(created))["metadata"]["namespace"]
    (instance,) = [each["id"] for each in await listed(stack, "list") if each["namespace"] == namespace]
    before = {pod["metadata"]["uid"] for pod in await asyncio.to_thread(kubectl.pods_of, workload, namespace)}

    def are_others() -> bool:
        pods = kubectl.pods_of(workload, namespace)
        return bool(pods) and all(pod["metadata"]["uid"] not in before and is_ready(pod) for pod in pods)

    async with seen_by_user(tenant) as seen:
        async with remedy_ordered(stack, instance, remedy):
            await until(f"other pods of {workload} are ready", are_others)
        assert await seen.changes() == []
    await deploy_next_commit(tenant, repository)
