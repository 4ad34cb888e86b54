"""TCP ports for a whole stack, such that two stacks never meet.

A stack takes a block of neighbouring ports and holds the block's lock for as long as it lives; the kernel lets go
of it even after SIGKILL. Blocks lie below the range from which Linux picks the ports of outgoing connections, so
none of them is taken by chance between being chosen and being bound.
"""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from devstack.stack import second_cluster
from devstack.stack.replicas import MOST_REPLICAS, processes_of
from devstack.toolchain.cache import cache_root
from services.common.errors import Unavailable


def _ports_of(service: str) -> list[str]:
    counts = range(1, MOST_REPLICAS + 1)
    return sorted({process for replicas in counts for process in processes_of(service, replicas)})


NAMES = (
    "postgres",
    "kafka",
    "kafka-controller",
    "kafka-sasl",
    "registry",
    "connect",
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    *_ports_of("watcher"),
    *_ports_of("planner"),
    "agent-1",
    "agent-2",
    "argocd-simulator",
    "argocd-redis-1",
    "argocd-redis-2",
    "argocd-repo-server-1",
    "argocd-repo-server-2",
    "argocd-repo-server-1-metrics",
    "argocd-repo-server-2-metrics",
    "argocd-application-controller-1",
    "argocd-application-controller-2",
    "git-https",
    "git-ssh",
    "remote-kube-apiserver",
    "remote-kube-controller-manager",
    "kafka-pods",
    "kube-scheduler",
    "kube-proxy",
    "kube-proxy-metrics",
    "kubelet",
    *second_cluster.PORTS,
)
SPARE_NAMES = tuple(
    f"argocd-{part}"
    for number in (3, 4)
    for part in (
        f"redis-{number}",
        f"repo-server-{number}",
        f"repo-server-{number}-metrics",
        f"application-controller-{number}",
    )
)
"""Of Argo CDs that are there with ``--spares`` alone: in a block of their own."""
BLOCK_SIZE = 50
BLOCKS = range(20_000, 32_000, BLOCK_SIZE)


@contextmanager
def reserve(preferred: int | None = None, names: Sequence[str] = NAMES) -> Iterator[dict[str, int]]:
    """Hold a block of free ports, ``preferred`` if it is to be had; yields the port of each of ``names``.

    Raises:
        Unavailable: when every block is taken.
    """
    folder = cache_root() / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    order = BLOCKS if preferred not in BLOCKS else [preferred, *BLOCKS]
    for first in order:
        with (folder / f"{first}.lock").open("w") as lock:
            if _lock(lock) and all(_is_free(first + offset) for offset in range(len(names))):
                yield {name: first + offset for offset, name in enumerate(names)}
                return
    raise Unavailable(f"no {len(names)} neighbouring free ports between {BLOCKS.start} and {BLOCKS.stop}")


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: connections of an earlier run that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
