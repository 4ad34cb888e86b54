"""What an engine of containers and a node take of the machine: packages of Debian or Ubuntu, and of the kernel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devstack.toolchain.processes import run_checked
from services.common.errors import NoPermission, Unavailable

INSTALL = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends")


@dataclass(frozen=True)
class Needs:
    """What something needs of the machine, besides root."""

    what: str
    packages: Mapping[str, str]
    """Package by the program that it brings, which has a path where none is searched for it."""
    kernel: Mapping[str, str] = field(default_factory=dict)
    """What the kernel has to offer, by a file that is there then."""

    def missing(self) -> list[str]:
        """Packages that are not installed, sorted."""
        return sorted({package for program, package in self.packages.items() if not _is_there(program)})


ENGINE = Needs(
    "a Docker engine",
    {
        "dockerd": "docker.io",
        "docker": "docker.io",
        "debootstrap": "debootstrap",
        "ip": "iproute2",
        "iptables": "iptables",
    },
)
NODE = Needs(
    "a node",
    {
        "containerd": "containerd",
        "ctr": "containerd",
        "runc": "runc",
        "nft": "nftables",
        "ip": "iproute2",
        "conntrack": "conntrack",
        "socat": "socat",
        "debootstrap": "debootstrap",
        "/usr/lib/cni/bridge": "containernetworking-plugins",
    },
    {
        "/sys/fs/cgroup/memory/cgroup.procs": "cgroups of version 1",
        "/proc/sys/net/bridge/bridge-nf-call-iptables": "the module br_netfilter ('modprobe br_netfilter')",
    },
)


def require(needs: Needs) -> None:
    """Raises NoPermission without root, Unavailable naming the packages that are missing, or what the kernel lacks."""
    _require_root(needs)
    if missing := needs.missing():
        raise Unavailable(f"{needs.what} needs packages that are not here: {', '.join(missing)}; run 'make packages'")
    _require_kernel(needs)


def install(needs: Needs) -> None:
    """Install the packages that are missing.

    Raises:
        NoPermission: without root.
        Unavailable: naming what is missing, where it cannot be installed, or what the kernel lacks.
    """
    _require_root(needs)
    _require_kernel(needs)
    missing = needs.missing()
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{needs.what} needs {', '.join(missing)} (as Debian calls them): install these first")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in (["apt-get", "update", "--quiet"], [*INSTALL, *missing]):
            run_checked(command, environment)
    except Unavailable as error:
        why = str(error).splitlines()[-1]
        raise Unavailable(f"{needs.what} needs {', '.join(missing)}, which cannot be installed: {why}") from error


def _require_root(needs: Needs) -> None:
    if os.geteuid() != 0:
        raise NoPermission(f"{needs.what} is started by root alone: run this as root")


def _require_kernel(needs: Needs) -> None:
    if lacking := [what for file, what in needs.kernel.items() if not Path(file).exists()]:
        raise Unavailable(f"{needs.what} needs of the kernel what is not here: {', '.join(lacking)}")


def _is_there(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None
