"""Tenants that go on while something is done to our pods: what became of their changes, and of the pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
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
from tests.e2e.tenant import USER, Tenant, deployment, path
from tests.node.kubectl import OURS, PART, Kubectl, container_statuses, is_ready, restarts

T = TypeVar("T")

SERVICES = ("watcher", "planner", "agent")
EVERY_SECONDS = 1.0
"""A deployment is created, changed and deleted: a tenant may not have as many as come in some minutes. More of them
would have a slow machine fall behind, while all pods start at once, and what waits then tells nothing."""
LOST_SECONDS = 300
"""What has not led to anything by then is lost, not slow."""
STANDSTILL_SECONDS = 120
"""A change that takes longer has waited for somebody who did not work."""
SPELL_SECONDS = 30
"""A pod that is not ready for less is there: all of a group are without partitions while these are handed over, which
on a machine that is busy with something else takes long enough for the kubelet to see."""
LOOK_SECONDS = 1

STATUS = "its status"
STEPS = ("created", STATUS, "changed", "deleted")
"""Of a deployment's life, in order; the second is what comes back, the others are changes."""
CHANGED = "since"
"""Where its manifests are then."""


class Load:
    """What was seen while it lasted."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        """From each change to what follows from it, by what was done."""
        self.lost: list[str] = []
        """Deployments of which something did not follow in time."""
        self.fewest: dict[str, int] = {}
        """Of each service the pods that were there, at the worst moment."""
        self.exit_codes: dict[str, int] = {}
        """Of each container that ended, by the name of its pod."""

    @property
    def slowest(self) -> float:
        """Seconds, of all changes."""
        return max((taken for each in self.seconds.values() for taken in each), default=0)

    def __str__(self) -> str:
        sent = sum(len(taken) for step, taken in self.seconds.items() if step != STATUS) + len(self.lost)
        slowest = ", ".join(f"{step} {max(taken, default=0):.1f} s" for step, taken in self.seconds.items())
        there = ", ".join(f"{name} {count}" for name, count in self.fewest.items())
        return f"{sent} changes sent, {len(self.lost)} lost, the slowest: {slowest}; there at least: {there}"

    async def send_changes(self, tenant: Tenant, end: asyncio.Event) -> None:
        """Until the end, then wait for what follows from each."""
        number = 0
        async with asyncio.TaskGroup() as group:
            while not end.is_set():
                group.create_task(self._live(tenant, f"app-{number}"))
                number += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(end.wait(), EVERY_SECONDS)

    async def _live(self, tenant: Tenant, name: str) -> None:
        """A deployment's whole life: each step begins when the one before has led to what it should."""
        try:
            async with self._timed("created"):
                created = await create(tenant, name)
                await tenant.application_of(created, LOST_SECONDS)
            async with self._timed(STATUS):
                await tenant.until_status("deployed", name, LOST_SECONDS, sync__status="Synced")
            async with self._timed("changed"):
                await answered(partial(tenant.patch, name, path(CHANGED)))
                await tenant.until_path(created, CHANGED, LOST_SECONDS)
            async with self._timed("deleted"):
                with suppress(NotFound):  # the answer that it is deleted was lost
                    await answered(partial(tenant.delete, name))
                await tenant.until_application_gone(created, LOST_SECONDS)
        except (TimeoutError, Unavailable) as error:
            self.lost.append(f"{name}: {error}")

    @asynccontextmanager
    async def _timed(self, step: str) -> AsyncIterator[None]:
        began = time.monotonic()
        async with asyncio.timeout(LOST_SECONDS):
            yield
        self.seconds[step].append(time.monotonic() - began)

    async def watch_pods(self, kube: KubeClient) -> None:
        """For ever: every state that the API server has shown, and every second how long that has been so."""
        pods: ObjectStore[tuple[str, str], Manifest] = ObjectStore(namespace_and_name, lambda item, _: item)
        presence = Presence()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_often(pods, presence))
            async for _ in Informer(reflect(kube, POD, OURS), pods).changes():
                self._look(pods, presence)

    async def _look_often(self, pods: ObjectStore[tuple[str, str], Manifest], presence: Presence) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look(pods, presence)

    def _look(self, pods: ObjectStore[tuple[str, str], Manifest], presence: Presence) -> None:
        if pods.is_complete:
            now = presence.by_service(pods.values(), time.monotonic())
            self.fewest = {name: min(self.fewest.get(name, now[name]), now[name]) for name in SERVICES}
            self.exit_codes |= exit_codes(pods.values())


class Presence:
    """Which pods are there: those that are ready or were so a moment ago, run on and are not about to go."""

    def __init__(self) -> None:
        self._ready_at: dict[tuple[str, int], float] = {}
        """When each container was last ready, by its pod and how often it was started again."""

    def by_service(self, pods: Iterable[Manifest], now: float) -> dict[str, int]:
        """How many of each are there; ``now`` is of a monotonic clock, in seconds."""
        counted = [pod["metadata"]["labels"].get(PART) for pod in pods if self._has(pod, now)]
        return {name: counted.count(name) for name in SERVICES}

    def _has(self, pod: Manifest, now: float) -> bool:
        container = (pod["metadata"]["uid"], restarts(pod))
        if is_ready(pod):
            self._ready_at[container] = now
        is_going = "deletionTimestamp" in pod["metadata"] or bool(exit_codes([pod]))
        return not is_going and now - self._ready_at.get(container, -inf) < SPELL_SECONDS


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


def our_pods(kubectl: Kubectl) -> list[Manifest]:
    """Of the services that are watched."""
    return [pod for name in SERVICES for pod in kubectl.pods_of(name)]


@asynccontextmanager
async def going_on(tenant: Tenant, kube: KubeClient) -> AsyncIterator[Load]:
    """While the block lasts; afterwards every change has led to what it should, and none has waited for long."""
    load, end = Load(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(load.watch_pods(kube))
        sending = group.create_task(load.send_changes(tenant, end))
        try:
            yield load
        finally:
            end.set()
            await asyncio.wait([sending])
            watching.cancel()
    assert load.lost == []
    assert len(load.seconds[STEPS[-1]]) > 1
    assert load.slowest < STANDSTILL_SECONDS
