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


def processor_quotas(pod: dict[str, Any]) -> list[int]:
    """Of its container and of the pod: microseconds of each period; -1 is none."""
    group = group_of(pod, "cpu")
    return [int((place / "cpu.cfs_quota_us").read_text()) for place in (group, group.parent)]


def processor_seconds(pod: dict[str, Any]) -> float:
    """That its container has had."""
    return int((group_of(pod, "cpuacct") / "cpuacct.usage").read_text()) / 1e9
