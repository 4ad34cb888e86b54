"""The hops of a stack that a proxy can cut or slow: a port of its own for each process and each server of it.

So a fault concerns one hop of one process, and nobody else notices. Kafka tells its clients at which address to come
back: each process comes by a listener of its own, which advertises that process's proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from devstack.stack.replicas import MOST_REPLICAS, processes_of

PORT_OF = {"kafka": "kafka-sasl", "registry": "registry", "postgres": "postgres", "kube-apiserver": "kube-apiserver"}
"""By server, the name of the port at which it is found."""

HOPS = {
    "watcher": ("kafka", "registry", "kube-apiserver"),
    "planner": ("kafka", "registry", "postgres"),
    "agent-1": ("kafka", "registry", "kube-apiserver"),
    "agent-2": ("kafka", "registry", "kube-apiserver"),
    "connect": ("kafka", "registry", "postgres"),
}
"""Servers by process, or by service where there may be several processes."""
SIMULATOR = ("argocd-simulator",)
CONTROLLERS = ("argocd-application-controller-1", "argocd-application-controller-2")
"""What reaches the API server besides: one or the other."""

API = "toxiproxy"
"""Name of the port at which the proxies are commanded."""


@dataclass(frozen=True, slots=True)
class Link:
    """One process's way to one server."""

    process: str
    server: str

    @property
    def name(self) -> str:
        """Of the proxy and its port."""
        return f"{self.process}-{self.server}"

    @property
    def listener(self) -> str:
        """Of a way to Kafka: name of the broker's listener that it ends at, and of its port."""
        return f"{self.server}-{self.process}"


def links(replicas: int, *, with_argocd: bool) -> list[Link]:
    """Every link of a stack with so many planners and watchers, and with real Argo CD or its simulator."""
    ours = [
        Link(process, server)
        for service, servers in HOPS.items()
        for process in processes_of(service, replicas)
        for server in servers
    ]
    return ours + [Link(process, "kube-apiserver") for process in (CONTROLLERS if with_argocd else SIMULATOR)]


def port_names() -> tuple[str, ...]:
    """Of the ports that links need, however many planners and watchers there are."""
    return (API, *dict.fromkeys(_port_names()))


def _port_names() -> Iterator[str]:
    for replicas, with_argocd in product(range(1, MOST_REPLICAS + 1), (False, True)):
        for link in links(replicas, with_argocd=with_argocd):
            yield link.name
            if link.server == "kafka":
                yield link.listener
