"""Pods that are updated, evicted, hung or ended: tenants notice nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devstack.stack.node_addresses import NAME
from services.common.kafka import COMMANDS, DEFAULT_ENGINE_CLUSTER, engine_topic
from services.common.kubernetes import KubeClient, Manifest
from services.common.telemetry.metrics import Direction
from tests.e2e.tenant import Tenant
from tests.node import cgroups
from tests.node.kubectl import OURS, Kubectl, container_statuses, is_ready, read_metrics, restarts, until
from tests.node.load import SERVICES, going_on

SLOW_SECONDS = 40
"""Longer than readiness bears it, shorter than liveness does."""
WORK: Mapping[str, Mapping[str, str]] = {
    "watcher": {"topic": COMMANDS, "direction": Direction.SENT},
    "planner": {"topic": COMMANDS, "direction": Direction.RECEIVED},
    "agent": {"topic": engine_topic(DEFAULT_ENGINE_CLUSTER), "direction": Direction.RECEIVED},
}
"""What is counted of each service: the one of its two pods that does a tenant's work has it."""
SOME = 5
"""Messages that come with nothing else than with what tenants do."""


def ready_pods(kubectl: Kubectl, name: str) -> int:
    return sum(is_ready(pod) for pod in kubectl.pods_of(name))


def all_ready(kubectl: Kubectl) -> bool:
    return all(ready_pods(kubectl, name) == 2 for name in SERVICES)


async def test_update_when_its_image_is_not_there_then_the_old_pods_stay_until_it_is_undone(
    tenant: Tenant, kube: KubeClient, kubectl: Kubectl
) -> None:
    before = {pod["metadata"]["uid"] for pod in kubectl.pods_of("planner")}
    kubectl.run("set", "image", f"--namespace={OURS}", "deployment/planner", "service=localhost/nothing:1")
    try:
        async with going_on(tenant, kube) as load:
            await until("the image is not found", lambda: _waits_for_image(kubectl))
    finally:
        kubectl.run("rollout", "undo", f"--namespace={OURS}", "deployment/planner")
    await until("the new pod is gone", lambda: len(kubectl.pods_of("planner")) == 2)
    assert load.fewest["planner"] == 2
    assert {pod["metadata"]["uid"] for pod in kubectl.pods_of("planner")} == before


def _waits_for_image(kubectl: Kubectl) -> bool:
    states = [status["state"] for pod in kubectl.pods_of("planner") for status in container_statuses(pod)]
    return any(state.get("waiting", {}).get("reason") in {"ErrImagePull", "ImagePullBackOff"} for state in states)


async def test_node_when_it_is_drained_then_one_pod_of_each_stays_and_works(
    tenant: Tenant, kube: KubeClient, kubectl: Kubectl
) -> None:
    chosen = "--pod-selector=app.kubernetes.io/part-of=gitops-service"
    try:
        async with going_on(tenant, kube) as load:
            drain = ("drain", NAME, chosen, "--delete-emptydir-data", "--timeout=15s")
            drained = await asyncio.to_thread(kubectl.attempt, *drain)
        assert drained.returncode != 0
        assert "violate the pod's disruption budget" in drained.stderr
        assert {name: ready_pods(kubectl, name) for name in SERVICES} == dict.fromkeys(SERVICES, 1)
        assert load.fewest == dict.fromkeys(SERVICES, 1)
    finally:
        kubectl.run("uncordon", NAME)
    await until("every pod is ready again", lambda: all_ready(kubectl))


async def test_pod_when_it_is_ended_at_work_then_it_ends_by_itself_and_nothing_is_lost(
    tenant: Tenant, kube: KubeClient, kubectl: Kubectl
) -> None:
    async with going_on(tenant, kube) as load:
        pods = [(await at_work(kubectl, name))["metadata"]["name"] for name in SERVICES]
        await asyncio.to_thread(kubectl.run, "delete", "pod", f"--namespace={OURS}", *pods)
    # A process that the kubelet kills when its time is over has another.
    assert {pod: load.exit_codes.get(pod) for pod in pods} == dict.fromkeys(pods, 0)
    await until("others have taken their place", lambda: all_ready(kubectl))


@pytest.mark.parametrize("service", SERVICES)
async def test_process_when_it_is_slow_for_a_while_then_it_gets_no_work_and_is_left_alone(
    kubectl: Kubectl, service: str
) -> None:
    pod = kubectl.pods_of(service)[0]
    name = pod["metadata"]["name"]
    cgroups.send(pod, signal.SIGSTOP)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(SLOW_SECONDS))
            await until("it is not ready", lambda: not is_ready(kubectl.get("pod", f"--namespace={OURS}", name)))
    finally:
        cgroups.send(pod, signal.SIGCONT)
    await until("it is ready", lambda: is_ready(kubectl.get("pod", f"--namespace={OURS}", name)))
    assert restarts(kubectl.get("pod", f"--namespace={OURS}", name)) == restarts(pod)


@pytest.mark.parametrize("service", SERVICES)
async def test_process_when_it_hangs_at_work_then_another_goes_on_and_the_kubelet_ends_it(
    tenant: Tenant, kube: KubeClient, kubectl: Kubectl, service: str
) -> None:
    async with going_on(tenant, kube):
        pod = await at_work(kubectl, service)
        cgroups.send(pod, signal.SIGSTOP)
        await until("it was started again", lambda: _is_new(kubectl, pod))


def _is_new(kubectl: Kubectl, pod: Manifest) -> bool:
    now = kubectl.get("pod", f"--namespace={OURS}", pod["metadata"]["name"])
    return restarts(now) == restarts(pod) + 1 and is_ready(now)


async def at_work(kubectl: Kubectl, service: str) -> Manifest:
    """The pod of a service that what tenants do comes to, seen from now on."""
    before = messages(kubectl, service)
    found: list[str] = []

    def has_some() -> bool:
        found[:] = [name for name, count in messages(kubectl, service).items() if count >= before[name] + SOME]
        return found != []

    await until(f"a {service} has work", has_some)
    return next(pod for pod in kubectl.pods_of(service) if pod["metadata"]["name"] == found[0])


def messages(kubectl: Kubectl, service: str) -> dict[str, float]:
    """How many of :data:`WORK` each of its pods has had, by the pod's name."""
    names = [pod["metadata"]["name"] for pod in kubectl.pods_of(service)]
    return {name: _counted(read_metrics(kubectl, name), WORK[service]) for name in names}


def _counted(metrics: str, wanted: Mapping[str, str]) -> float:
    samples = [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
    return sum(
        sample.value
        for sample in samples
        if sample.name == "gitops_messages_total" and sample.labels.items() >= wanted.items()
    )
