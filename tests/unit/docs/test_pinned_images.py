"""Images are pinned as SECURITY.md says: by digest on Kubernetes, by version in the development stack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from devstack.paths import ROOT

COMPOSE = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())
CONTAINERFILE = (ROOT / "compose" / "Containerfile").read_text()
OWN = re.compile(r"gitops-service(-stack|-argocd)?:dev")
VERSION = re.compile(r"[\w./-]+:\d+[\w.-]*")


def bases() -> set[str]:
    """What the images are built from, other than each other."""
    stages = set(re.findall(r"^FROM .* AS (\S+)$", CONTAINERFILE, re.MULTILINE))
    return set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) - stages


def test_development_stack_when_it_names_images_then_each_has_a_version_or_is_built_here() -> None:
    images = {service["image"] for service in COMPOSE["services"].values()}
    assert {image for image in images if not OWN.fullmatch(image)} == {"postgres:18"}
    assert bases()
    assert [image for image in bases() | {"postgres:18"} if not VERSION.fullmatch(image)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "k8s").rglob("*.yaml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_manifest_when_it_names_an_image_then_by_digest_or_by_the_name_that_an_overlay_replaces(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        for entry in (manifest or {}).get("images", []) if isinstance(manifest, dict) else []:
            assert "newTag" not in entry
            assert entry["digest"].startswith("sha256:")
    assert set(re.findall(r"^\s+(?:- )?image: (\S+)", path.read_text(), re.MULTILINE)) <= {"gitops-service"}
