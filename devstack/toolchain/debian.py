"""Debian in a folder, as the ground that images stand on where no registry is to be asked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devstack.toolchain.cache import cache_root, provide
from devstack.toolchain.gobuild import GENTLY
from devstack.toolchain.progress_bar import Reporter
from services.common.errors import Unavailable

SUITE = "bookworm"
AUTHORITIES = Path("usr/local/share/ca-certificates")
"""Of the machine: whoever is between it and a package index."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

NOT_PACKED = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")


def provide_root(report: Reporter, packages: Sequence[str], *commands: str) -> Path:
    """Folder of ``root.tar``, made if it is absent: these packages, then what ``commands`` do as root within.

    Raises Unavailable.
    """
    key = digest_of(SUITE, *packages, *commands)
    return provide(cache_root() / "debian" / key, lambda folder: _install(packages, commands, folder, report))


def _install(packages: Sequence[str], commands: Sequence[str], folder: Path, report: Reporter) -> None:
    task = report.task(f"installing Debian {SUITE} into a folder", None)
    root = folder / "root"
    run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root))
    shutil.copytree(Path("/") / AUTHORITIES, root / AUTHORITIES, dirs_exist_ok=True)
    for command in ("update-ca-certificates", *commands):
        run("chroot", str(root), "/bin/sh", "-ec", command)
    pack(root, folder / "root.tar")
    shutil.rmtree(root)
    task.finish()


def pack(root: Path, archive: Path) -> None:
    """Write what is in ``root``, as a layer of an image has it."""
    excluded = (f"--exclude={pattern}" for pattern in NOT_PACKED)
    run("tar", "--create", *excluded, "--file", str(archive), "--directory", str(root), ".")


def run(*argv: str, **environment: str) -> None:
    """Run to the end; raises Unavailable with the last that it says."""
    bundle = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), BUNDLE)
    outcome = subprocess.run(
        [*GENTLY, *argv], env=os.environ | bundle | environment, capture_output=True, text=True, check=False
    )
    if outcome.returncode != 0:
        said = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()[-3:]
        raise Unavailable(f"{argv[0]} failed while an image was made: {' | '.join(said)}")


def digest_of(*parts: str) -> str:
    """Names what is made of these."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
