"""The release that the documents name is one that needs no compensation, by digest."""

from __future__ import annotations

import re

import yaml

from devstack.paths import ROOT
from services.agent.instances.argocd_versions import is_patched, parsed_version

README = (ROOT / "k8s" / "README.md").read_text()


def test_release_of_argo_cd_when_the_documents_name_it_then_it_is_a_patched_one_by_digest() -> None:
    (example,) = [text for text in re.findall(r"^```yaml\n(.*?)^```", README, re.M | re.S) if "argo-cd" in text]
    wanted = yaml.safe_load(example)
    (resource,) = wanted["resources"]
    version = parsed_version(resource.partition("?ref=")[2])
    assert version is not None
    assert is_patched(version)
    (image,) = wanted["images"]
    assert parsed_version(f"{image['newTag']}@{image['digest']}") == version  # what agents find in the pods' image
    assert image["digest"].startswith("sha256:")
