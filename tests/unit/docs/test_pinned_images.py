"""Images are pinned as SECURITY.md says: by digest, on Kubernetes and in Compose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from devstack.paths import ROOT

COMPOSE = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())
CONTAINERFILE = (ROOT / "compose" / "Containerfile").read_text()
OWN = re.compile(r"gitops-service(-stack|-argocd)?:dev")
VERSION = re.compile(r"[\w./-]+:\d+[\w.-]*(@sha256:[0-9a-f]{64})?")
REPLACEABLE = re.compile(r"\$\{\w+:-(\S+)\}")
"""By the image of another name, where no registry is."""


def bases() -> set[str]:
    """What the images are built from, other than each other."""
    return set(re.findall(r"^ARG \w+_IMAGE=(\S+)$", CONTAINERFILE, re.MULTILINE)) - {"scratch"}


def test_development_stack_when_it_names_images_then_each_has_a_version_or_is_built_here() -> None:
    images = {REPLACEABLE.sub(r"\1", service["image"]) for service in COMPOSE["services"].values()}
    foreign = {image for image in images if not OWN.fullmatch(image)}
    assert {image.partition("@")[0] for image in foreign} == {"postgres:18"}
    assert bases()
    assert [image for image in bases() | foreign if not VERSION.fullmatch(image)] == []


def test_images_when_built_then_their_bases_and_the_database_are_named_by_digest() -> None:
    assert [image for image in bases() if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []
    assert re.search(r"@sha256:[0-9a-f]{64}\b", COMPOSE["services"]["postgres"]["image"])


@pytest.mark.parametrize("path", sorted((ROOT / "k8s").rglob("*.yaml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_manifest_when_it_names_an_image_then_by_digest_or_by_the_name_that_an_overlay_replaces(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        for entry in (manifest or {}).get("images", []) if isinstance(manifest, dict) else []:
            assert "newTag" not in entry
            assert re.fullmatch(r"sha256:([0-9a-f]{64}|LOOK-IT-UP)", entry["digest"])
    assert set(re.findall(r"^\s+(?:- )?image: (\S+)", path.read_text(), re.MULTILINE)) <= {"gitops-service"}
