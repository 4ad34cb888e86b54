"""A thousand deployments at once, also beside a pod that takes all it gets: nothing is lost, no limit is reached."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial

import pytest

from devstack.harness.mirror import Mirror, Objects
from services.common.kubernetes import KubeClient, Manifest, NotFound
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node import cgroups
from tests.node.kubectl import Kubectl, restarts
from tests.node.load import answered, create, our_pods
from tests.node.paths import labelled, stand_in

BURST_SECONDS = 600
MEGABYTE = 1_000_000
BUSY = "busy-tenant"
TAKE_ALL = """
import os
for _ in range(os.cpu_count() - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""


@pytest.fixture
async def tenants(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[list[Tenant]]:
    """Twenty; what they have is gone afterwards."""
    async with AsyncExitStack() as stack:
        there = [await stack.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(20)]
        yield there
        await asyncio.gather(*map(leave_by_halves, there))


async def test_limits_when_a_thousand_deployments_come_at_once_then_none_is_reached(
    tenants: list[Tenant], kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    with unharmed(kubectl):
        seconds = await burst(tenants)
    with capsys.disabled():
        sys.stdout.write(f"\nburst: {seconds:.0f} s; {figures(kubectl)}\n")


async def test_limits_when_a_thousand_deployments_come_beside_a_pod_that_takes_all_cpu_then_none_is_reached(
    tenants: list[Tenant], kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    with unharmed(kubectl), busy_pod(kubectl) as busy:
        seconds = await burst(tenants)
        taken = cgroups.processor_seconds(busy)
    with capsys.disabled():
        sys.stdout.write(f"\nburst beside a pod that took {taken:.0f} s of CPU: {seconds:.0f} s; {figures(kubectl)}\n")
    assert taken > seconds / 4  # else nobody was in the way


def limited_pods(kubectl: Kubectl) -> list[Manifest]:
    """All of ours that run at all times."""
    return [*our_pods(kubectl), *kubectl.pods_of("connector-keeper")]


def test_processors_when_our_pods_run_then_none_has_a_quota_of_them(kubectl: Kubectl) -> None:
    pods = limited_pods(kubectl)
    assert {quota for pod in pods for quota in cgroups.processor_quotas(pod)} == {-1}


@contextmanager
def unharmed(kubectl: Kubectl) -> Iterator[None]:
    """No container is started again while the block lasts, and none comes near the memory that it may have."""
    before = {pod["metadata"]["name"]: restarts(pod) for pod in limited_pods(kubectl)}
    yield
    pods = limited_pods(kubectl)
    assert {pod["metadata"]["name"]: restarts(pod) for pod in pods} == before
    assert [pod["metadata"]["name"] for pod in pods if cgroups.most_memory(pod) > 0.8 * cgroups.memory_limit(pod)] == []


@contextmanager
def busy_pod(kubectl: Kubectl) -> Iterator[Manifest]:
    """A tenant's, which asks for as much CPU as one of ours and takes all that it gets."""
    pod = stand_in(BUSY, "any", labelled("any"), (8080,))
    (container,) = pod["spec"]["containers"]
    container["command"] = ["python", "-c", TAKE_ALL]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    del container["readinessProbe"]
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BUSY}})
    kubectl.apply(pod)
    try:
        kubectl.run("wait", "--for=condition=Ready", f"--namespace={BUSY}", "pod/any")
        yield kubectl.get("pod", f"--namespace={BUSY}", "any")
    finally:
        kubectl.run("delete", "namespace", BUSY, "--wait=false")


def figures(kubectl: Kubectl) -> str:
    return "; ".join(map(_figures, limited_pods(kubectl)))


def _figures(pod: Manifest) -> str:
    memory, limit = (size // MEGABYTE for size in (cgroups.most_memory(pod), cgroups.memory_limit(pod)))
    return f"{pod['metadata']['name']} {memory} of {limit} MB, {cgroups.processor_seconds(pod):.0f} s of CPU"


async def burst(tenants: list[Tenant]) -> float:
    """A thousand deployments, each of which becomes Healthy. Returns the seconds."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for tenant in tenants:
            group.create_task(_deploy(tenant, 1000 // len(tenants)))
    return time.monotonic() - began


async def _deploy(tenant: Tenant, count: int) -> None:
    created = [await create(tenant, f"app-{number}") for number in range(count)]
    for deployment in created:
        name = f"{deployment['metadata']['name']} is deployed"
        await tenant.deployments.until(name, partial(_is_healthy, tenant, deployment), BURST_SECONDS)


def _is_healthy(tenant: Tenant, deployment: Manifest, _: Objects) -> bool:
    status = tenant.status(deployment["metadata"]["name"])
    return bool(status.get("health", {}).get("status") == "Healthy")


async def leave_by_halves(tenant: Tenant) -> None:
    """Delete what is there, half of it at a time: of a list that lacks more, as one of a new leader's does on a machine
    that is too busy for the Lease of the old one, planners believe nothing (docs/operations/refused-resync.md)."""
    while own := [item for (namespace, _), item in tenant.deployments.objects.items() if namespace == tenant.namespace]:
        going = own[: max(1, len(own) // 2)]
        for item in going:
            with suppress(NotFound):
                await answered(partial(tenant.delete, item["metadata"]["name"]))
        for item in going:
            await tenant.until_application_gone(item, BURST_SECONDS)
