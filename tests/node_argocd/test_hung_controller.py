"""An application controller that hangs: its agent finds that, the ladder restarts it, and its tenants go on.

With the settings of an installation: Argo CD's readiness probe, ten seconds between two measurements, a minute of
patience, and half a minute until the kubelet kills what does not end.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from devstack.harness.hosted import HostedStack
from tests.argocd.deployed import SETTLED
from tests.argocd.sources import Source, config_map
from tests.e2e.operators import listed
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant
from tests.node import cgroups
from tests.node.kubectl import Kubectl, is_ready, until
from tests.node_argocd.next_commit import DEPLOYED_SECONDS, deploy_next_commit

CONTROLLER = "argocd-application-controller"
FOUND_AND_RESTARTED_SECONDS = 600


async def remedies(stack: HostedStack, instance: str) -> list[str]:
    """What was done for an instance, and why."""
    past = await listed(stack, "remedies", "--past")
    return [each["message"].partition(":")[0] for each in past if each["instance"] == instance]


@pytest.mark.timeout(FOUND_AND_RESTARTED_SECONDS)
async def test_controller_when_it_hangs_then_it_is_found_and_restarted_and_deploys_again(
    stack: HostedStack, kubectl: Kubectl, tenant: Tenant, source: Callable[..., Source]
) -> None:
    repository = source(config_map("before"))
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    namespace = (await tenant.application_of(created))["metadata"]["namespace"]
    (instance,) = [each["id"] for each in await listed(stack, "list") if each["namespace"] == namespace]
    (hung,) = await asyncio.to_thread(kubectl.pods_of, CONTROLLER, namespace)

    def is_another() -> bool:
        pods = kubectl.pods_of(CONTROLLER, namespace)
        return [pod["metadata"]["uid"] != hung["metadata"]["uid"] and is_ready(pod) for pod in pods] == [True]

    async with seen_by_user(tenant) as seen:
        cgroups.send(hung, signal.SIGSTOP)
        await until("another controller is ready", is_another)
        assert await seen.changes() == []
    done = [f"{rung} (ControllerNotReady)" for rung in ("Cordon", "RestartController")]
    assert await remedies(stack, instance) == done
    await deploy_next_commit(tenant, repository)
