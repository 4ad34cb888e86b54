"""What a node needs of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from services.common.errors import InvalidConfiguration, NoPermission, StartupError

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "socat": "socat",
    "debootstrap": "debootstrap",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""Debian's package by the program that it brings."""


def require() -> None:
    """Raises NoPermission without root, InvalidConfiguration naming the packages that are missing."""
    if os.geteuid() != 0:
        raise NoPermission("a node needs root: it makes bridges, mounts, cgroups and packet filters")
    if missing := missing_packages(PACKAGES):
        raise InvalidConfiguration(f"a node needs packages that are not here: {' '.join(missing)}; run 'make node'")


def install() -> None:
    """Install what is missing, where the machine's package manager is apt; then as :func:`require`."""
    missing = missing_packages(PACKAGES)
    if missing and os.geteuid() == 0 and (apt := shutil.which("apt-get")):
        command = [apt, "install", "--yes", "--quiet", "--no-install-recommends", *missing]
        subprocess.run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, check=False)
    require()


def missing_packages(programs: Iterable[str]) -> list[str]:
    """Of these programs the packages that are not installed, sorted."""
    return sorted({PACKAGES[program] for program in programs if not _is_there(program)})


def _is_there(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


if __name__ == "__main__":
    try:
        install()
    except StartupError as error:
        sys.exit(str(error))
