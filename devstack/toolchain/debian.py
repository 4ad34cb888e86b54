"""Debian in a folder, as the ground that images stand on where no registry is to be asked."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from devstack.toolchain.cache import cache_root, provide
from devstack.toolchain.gobuild import GENTLY
from devstack.toolchain.processes import run_checked
from devstack.toolchain.progress_bar import Reporter

SUITE = "bookworm"
ARCHIVE = "root.tar"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Of the machine: its packages may come by way of somebody whom only it trusts."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

PYTHON_PACKAGES = (
    "ca-certificates",
    "git",
    "netbase",
    "openssh-client",
    "python3",
    "python3-pip",
    "python3-venv",
    "tzdata",
)
AS_PUBLIC = (
    "rm --force /usr/lib/python3*/EXTERNALLY-MANAGED",
    "ln --symbolic /usr/bin/python3 /usr/local/bin/python",
    "ln --symbolic /usr/bin/python3 /usr/local/bin/python3",
)
"""So that Debian's Python is what the public image has: pip installs for everybody, and python is Python 3."""

NOT_PACKED = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")


def provide_python(report: Reporter) -> Path:
    """As :func:`provide_root`, with what the public images of Python have, the larger of which has git."""
    return provide_root(report, PYTHON_PACKAGES, *AS_PUBLIC)


def provide_root(report: Reporter, packages: Sequence[str], *commands: str) -> Path:
    """Folder of its archive, made if it is absent: these packages, then what ``commands`` do as root within.

    Its name tells what is in it. Raises Unavailable.
    """
    trusted = (path.read_text() for path in sorted(AUTHORITIES.glob("*.crt")))
    key = digest_of(SUITE, *packages, *commands, *trusted)
    return provide(cache_root() / "debian" / key, lambda folder: _install(packages, commands, folder, report))


def _install(packages: Sequence[str], commands: Sequence[str], folder: Path, report: Reporter) -> None:
    task = report.task(f"installing Debian {SUITE} into a folder", None)
    root = folder / "root"
    run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root))
    for path in AUTHORITIES.glob("*.crt"):
        shutil.copy(path, root / AUTHORITIES.relative_to("/"))
    for command in ("update-ca-certificates", *commands):
        run("chroot", str(root), "/bin/sh", "-ec", command)
    pack(root, folder / ARCHIVE)
    shutil.rmtree(root)
    task.finish()


def pack(root: Path, archive: Path) -> None:
    """Write what is in ``root``, as a layer of an image has it."""
    excluded = (f"--exclude={pattern}" for pattern in NOT_PACKED)
    run("tar", "--create", *excluded, "--file", str(archive), "--directory", str(root), ".")


def run(*argv: str, **environment: str) -> None:
    """Run to the end; raises Unavailable with the last that it says."""
    bundle = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), BUNDLE)
    run_checked([*GENTLY, *argv], os.environ | bundle | environment)


def digest_of(*parts: str) -> str:
    """Names what is made of these."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
