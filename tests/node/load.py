"""Tenants that go on while something is done to our pods: what became of their changes, and of the pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from devstack.node.policy_enforcer import POD
from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kubernetes import (
    Informer,
    KubeClient,
    Manifest,
    NotFound,
    ObjectStore,
    namespace_and_name,
    reflect,
)
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import USER, Tenant, deployment
from tests.node.kubectl import OURS, PART, Kubectl, container_statuses, is_ready

T = TypeVar("T")

SERVICES = ("watcher", "planner", "agent")
EVERY_SECONDS = 0.25
"""A deployment is created, and deleted when it is deployed: a tenant may not have as many as come in some minutes."""
LOST_SECONDS = 600
"""What has not led to anything by then is lost, not slow: a busy machine takes minutes to bring pods up."""


class Load:
    """What was seen while it lasted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """From each change to what follows from it for Argo CD."""
        self.lost: list[str] = []
        """Changes from which nothing followed in time."""
        self.fewest: dict[str, int] = {}
        """Of each service the pods that were ready and not about to go, at the worst moment."""
        self.exit_codes: dict[str, int] = {}
        """Of each container that ended, by the name of its pod."""

    def __str__(self) -> str:
        sent, slowest = len(self.seconds) + len(self.lost), max(self.seconds, default=0)
        ready = ", ".join(f"{name} {count}" for name, count in self.fewest.items())
        return f"{sent} changes sent, {len(self.lost)} lost, the slowest took {slowest:.1f} s; ready at least: {ready}"

    async def send_changes(self, tenant: Tenant, end: asyncio.Event) -> None:
        """Until the end, then wait for what follows from each."""
        number = 0
        async with asyncio.TaskGroup() as group:
            while not end.is_set():
                group.create_task(self._send_change(tenant, f"app-{number}"))
                number += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(end.wait(), EVERY_SECONDS)

    async def _send_change(self, tenant: Tenant, name: str) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LOST_SECONDS):
                created = await create(tenant, name)
            await tenant.application_of(created, LOST_SECONDS)
        except (TimeoutError, Unavailable):
            self.lost.append(name)
        else:
            self.seconds.append(time.monotonic() - began)
            with suppress(NotFound):  # the answer that it is deleted was lost
                await answered(partial(tenant.delete, name))

    async def watch_pods(self, kube: KubeClient) -> None:
        """For ever: every state that the API server has shown."""
        pods: ObjectStore[tuple[str, str], Manifest] = ObjectStore(namespace_and_name, lambda item, _: item)
        async for _ in Informer(reflect(kube, POD, OURS), pods).changes():
            if pods.is_complete:
                now = ready_by_service(pods.values())
                self.fewest = {name: min(self.fewest.get(name, now[name]), now[name]) for name in SERVICES}
                self.exit_codes |= exit_codes(pods.values())


async def create(tenant: Tenant, name: str) -> Manifest:
    """A deployment, however often it takes."""
    wanted = deployment(tenant.namespace, name)
    return await answered(partial(tenant.kube.apply_object, GITOPS_DEPLOYMENT, wanted, field_manager=USER))


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Ask the API server until it answers, which a busy machine keeps it from."""
    delays = Backoff()
    while True:
        try:
            return await call()
        except Retry:
            await asyncio.sleep(delays.next_delay())


def exit_codes(pods: Iterable[Manifest]) -> dict[str, int]:
    """Of containers that have ended, by the name of their pod."""
    states = ((pod["metadata"]["name"], status["state"]) for pod in pods for status in container_statuses(pod))
    return {name: int(state["terminated"]["exitCode"]) for name, state in states if "terminated" in state}


def ready_by_service(pods: Iterable[Manifest]) -> dict[str, int]:
    """How many are ready and not about to go."""
    counted = [
        pod["metadata"]["labels"].get(PART)
        for pod in pods
        if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
    ]
    return {name: counted.count(name) for name in SERVICES}


def our_pods(kubectl: Kubectl) -> list[Manifest]:
    """Of the services that are watched."""
    return [pod for name in SERVICES for pod in kubectl.pods_of(name)]


@asynccontextmanager
async def going_on(tenant: Tenant, kube: KubeClient) -> AsyncIterator[Load]:
    """While the block lasts; afterwards every change has led to something."""
    load, end = Load(), asyncio.Event()
    watching = asyncio.create_task(load.watch_pods(kube))
    sending = asyncio.create_task(load.send_changes(tenant, end))
    try:
        yield load
    finally:
        end.set()
        await sending
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert load.lost == []
    assert len(load.seconds) > 1
