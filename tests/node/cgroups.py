"""A container as the kernel sees it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from devstack.node.remains import CGROUPS, OF_PODS


def group_of(pod: dict[str, Any], hierarchy: str) -> Path:
    """The cgroup of a pod's one container."""
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].rpartition("/")[2]
    (found,) = (CGROUPS / hierarchy / OF_PODS).rglob(container)
    return found


def send(pod: dict[str, Any], number: signal.Signals) -> None:
    """A signal to every process of a pod's container."""
    for pid in (group_of(pod, "pids") / "cgroup.procs").read_text().split():
        os.kill(int(pid), number)


def most_memory(pod: dict[str, Any]) -> int:
    """Bytes that its container had at most."""
    return int((group_of(pod, "memory") / "memory.max_usage_in_bytes").read_text())


def memory_limit(pod: dict[str, Any]) -> int:
    """Bytes that its container may have."""
    return int((group_of(pod, "memory") / "memory.limit_in_bytes").read_text())


def times_throttled(pod: dict[str, Any]) -> int:
    """How often its container had to wait for its share of the processors."""
    lines = (group_of(pod, "cpu") / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["nr_throttled"])
