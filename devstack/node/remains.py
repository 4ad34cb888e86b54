"""What pods leave on the machine when nobody is there to end them: processes, mounts, cgroups.

Their network namespaces are mounts below the node's folder.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from devstack.node.commands import run
from services.common.errors import Unavailable

CGROUPS = Path("/sys/fs/cgroup")
OF_PODS = "gitops-node"
"""In every hierarchy the cgroup below which our kubelet has its own."""
GONE_SECONDS = 20
LOOK_EVERY_SECONDS = 0.05


def remove(folder: Path) -> None:
    """End and remove all that was started with its state in ``folder``. Raises Unavailable if something resists."""
    _repeat(lambda: _kill([*_shims(folder), *_members()]), "processes of pods")
    _repeat(lambda: _unmount(folder), "mounts")
    _repeat(_remove_cgroups, "cgroups")


def make_cgroups() -> None:
    """Those that the kubelet begins with."""
    for hierarchy in CGROUPS.iterdir():
        (hierarchy / OF_PODS).mkdir(exist_ok=True)  # some are the same under two names


def found(folder: Path) -> list[str]:
    """What there is, for people."""
    things: list[object] = [*_shims(folder), *_members(), *_mounts(folder), *_cgroups()]
    return [str(thing) for thing in things]


def _repeat(attempt: Callable[[], object], what: str) -> None:
    """Until ``attempt`` finds nothing more to do."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := attempt():
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} are still there after {GONE_SECONDS} s: {left}")
        time.sleep(LOOK_EVERY_SECONDS)


def _shims(folder: Path) -> list[int]:
    """Processes that hold a pod's containers; containerd has them outlive itself."""
    own = f"\0-address\0{folder}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"containerd-shim" in command.partition(b"\0")[0] and own in command:
                found.append(int(process.name))
    return found


def _members() -> list[int]:
    """Processes of containers."""
    pids: set[int] = set()
    for group in _cgroups():
        with suppress(OSError):
            pids.update(map(int, (group / "cgroup.procs").read_text().split()))
    return sorted(pids)


def _kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _mounts(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _unmount(folder: Path) -> list[str]:
    """The deepest first."""
    points = _mounts(folder)
    for point in reversed(points):
        run("umount", "--lazy", point)
    return points


def _cgroups() -> list[Path]:
    """The deepest first: one that has others in it cannot be removed."""
    found = [path for top in CGROUPS.glob(f"*/{OF_PODS}") for path in (top, *top.rglob("*/"))]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _remove_cgroups() -> list[Path]:
    groups = _cgroups()
    for group in groups:
        with suppress(OSError):  # the kernel is still at it
            group.rmdir()
    return groups
