"""The process that makes the machine a node, and makes it what it was before when it is told to end.

It starts before and ends after all else of the node; it also ends when its supervisor is killed, and then takes the
pods with it. What an earlier one left, it removes when it starts.
"""

from __future__ import annotations

import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from devstack.node import network, remains
from services.common.errors import Unavailable

READY = "ready"
"""File of the node's folder that is there while the machine is a node."""
SETTINGS = "settings.json"
END = signal.SIGTERM
"""Ends it, in order."""
LOCK = Path("/run/gitops-node.lock")
"""Held by the one node of the machine. Only root may make files there, /run/lock takes anybody's."""

PROCESSES = Path("/proc")
OTHER_NODES = {"kubelet", "kube-proxy", "k3s-server", "k3s-agent", "k0s", "kubelite"}
"""Programs that make a machine a node, as the kernel names them."""


def main() -> None:
    """Be the node in the folder that the command line names, until SIGTERM."""
    folder = Path(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {END})
    with sole_node():
        require_only_kubelet()
        _clear(folder)
        remains.make_cgroups()
        network.set_up(folder / SETTINGS)
        (folder / READY).touch()
        signal.sigwait({END})
        _clear(folder)


@contextmanager
def sole_node() -> Iterator[None]:
    """Hold the machine for one node: bridges, routes and cgroups have one name each. Raises Unavailable."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable("there is a node on this machine already, of another stack") from None
        yield


def require_only_kubelet() -> None:
    """Both would filter its packets. Raises Unavailable if the machine is a node already, though none of ours."""
    for name in PROCESSES.glob("[0-9]*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            if (program := name.read_text().strip()) in OTHER_NODES:
                raise Unavailable(f"this machine is a node of another cluster: {program} runs, pid {name.parent.name}")


def clear(folder: Path) -> None:
    """Leave nothing of an earlier node on the machine but its files. Raises Unavailable."""
    if folder.exists():
        with sole_node():
            _clear(folder)


def _clear(folder: Path) -> None:
    (folder / READY).unlink(missing_ok=True)
    remains.remove(folder)
    network.take_down(folder / SETTINGS)


if __name__ == "__main__":
    try:
        main()
    except Unavailable as error:
        sys.exit(str(error))
