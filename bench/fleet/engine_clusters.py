"""The engine clusters of a measured fleet: each an API server with agents, instances, and watches of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.commands import gitopsctl
from bench.side_process import SideProcess, beside
from bench.workload import create_namespaces
from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.stack import second_cluster
from devstack.stack.identities import ENGINE_CLUSTER
from services.common.kubernetes import KubeClient

WATCHES = re.compile(r'^apiserver_longrunning_requests\{[^}]*verb="WATCH"[^}]*\} (\d+)', re.MULTILINE)
CALLS_EACH, MOST_CALLS = 4, 64
"""In flight, of each Argo CD that a simulator plays, and of a simulator."""


@dataclass(frozen=True, slots=True)
class EngineCluster:
    """One of the stack's, with as many instances as are measured."""

    name: str
    kubeconfig_variable: str
    agents: tuple[str, ...]
    own: tuple[str, ...]
    """Instances that the stack has there by itself; an instance's id is its namespace."""
    added: tuple[str, ...] = ()

    @property
    def instances(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.own, *self.added)

    def kubeconfig(self, stack: HostedStack) -> Path:
        """Its administrator's."""
        return Path(stack.environment[self.kubeconfig_variable])


FIRST = EngineCluster(ENGINE_CLUSTER, "KUBECONFIG", ("agent-1", "agent-2"), ENGINE_NAMESPACES)
"""Where the tenants' namespaces are, too."""
SECOND = EngineCluster(
    second_cluster.NAME,
    second_cluster.KUBECONFIG_VARIABLE,
    (f"{second_cluster.PREFIX}agent",),
    (second_cluster.NAMESPACE,),
)
CAPACITY = 5_000
"""Applications, of an instance that is added: when one is drained the others of its cluster have room for its own."""
FEWEST_OF_CLUSTER = 2
"""Instances: a tenant that leaves one needs another, as tenants of the bench deploy to the cluster that they are in."""


@dataclass(frozen=True, slots=True)
class Watches:
    """What an API server served."""

    of_own: int
    """While the stack had only its own instances there."""
    of_all: int
    added: int
    """Instances that came between."""

    @property
    def each(self) -> float:
        """Of an instance."""
        return (self.of_all - self.of_own) / self.added if self.added else 0.0


def engine_clusters(clusters: int, instances: int) -> list[EngineCluster]:
    """The first of the stack's, with instances as even as can be. Raises RuntimeError if those are too few."""
    if instances < clusters * FEWEST_OF_CLUSTER:
        raise RuntimeError(f"{instances} instances in {clusters} clusters: each needs at least {FEWEST_OF_CLUSTER}")
    known = (FIRST, SECOND)[:clusters]
    return [_with_added(each, len(range(number, instances, clusters))) for number, each in enumerate(known)]


def _with_added(cluster: EngineCluster, instances: int) -> EngineCluster:
    added = tuple(f"bench-{cluster.name}-{number}" for number in range(len(cluster.own), instances))
    return EngineCluster(cluster.name, cluster.kubeconfig_variable, cluster.agents, cluster.own, added)


def simulator(stack: HostedStack, cluster: EngineCluster) -> AbstractContextManager[SideProcess]:
    """An Argo CD for the instances that are added: the stack's own has no rights there."""
    given = {
        "ENGINE_NAMESPACES": ",".join(cluster.added),
        "KUBECONFIG": str(cluster.kubeconfig(stack)),
        "SIMULATOR_CONCURRENCY": str(min(CALLS_EACH * len(cluster.added), MOST_CALLS)),
    }
    return beside("devstack.argocd_simulator", given, stack.state.root / f"bench-simulator-{cluster.name}.log")


async def add_instances(stack: HostedStack, kube: KubeClient, cluster: EngineCluster) -> None:
    """Their namespaces in the cluster of ``kube``, agents' rights there, and an operator's order for each.

    Returns when they take tenants. Raises RuntimeError if they do not in time.
    """
    if not cluster.added:
        return
    await create_namespaces(kube, list(cluster.added))
    placed = ("--namespaces", ",".join(cluster.instances), "--kubeconfig", str(cluster.kubeconfig(stack)))
    await asyncio.to_thread(gitopsctl, stack, "rbac", "apply", *placed)
    wanted = ("--cluster", cluster.name, "--capacity", str(CAPACITY))
    for name in cluster.added:
        await asyncio.to_thread(gitopsctl, stack, "engines", "add", name, *wanted)
    for name in cluster.added:
        await asyncio.to_thread(gitopsctl, stack, "engines", "wait", name)


def watches_in(metrics: str) -> int:
    """Watches that an API server serves, as its metrics tell."""
    return sum(int(count) for count in WATCHES.findall(metrics))


async def open_watches(kubes: Sequence[KubeClient]) -> list[int]:
    """Watches that each API server serves now."""
    return [await _open_watches(kube) for kube in kubes]


async def _open_watches(kube: KubeClient) -> int:
    token = (await kube.configuration.auth_settings()).get("BearerToken")
    headers = {"Authorization": token["value"] or ""} if token else {}
    async with kube.calls.get(f"{kube.configuration.host}/metrics", headers=headers) as answer:
        answer.raise_for_status()
        return watches_in(await answer.text())
