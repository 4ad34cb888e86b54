"""What the documents say of Argo CD's versions is what agents take; the one to install has the fixes, by digest."""

from __future__ import annotations

import re

import yaml

from devstack.paths import ROOT
from devstack.toolchain.install import ARGOCD_VARIANTS, NEWEST_ARGOCD
from services.common.argocd_versions import READ, TESTED, is_patched, parsed_version

README = (ROOT / "k8s" / "README.md").read_text()


def test_release_of_argo_cd_when_the_documents_name_it_then_it_is_a_patched_one_by_digest() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", README, re.M | re.S)
    by_hand, by_provisioner = (text for text in blocks if "argo-cd" in text)
    for example in (by_hand, by_provisioner):
        wanted = yaml.safe_load(example)
        (resource,) = wanted["resources"]
        version = parsed_version(resource.partition("?ref=")[2])
        assert version is not None
        assert is_patched(version)
        (image,) = wanted["images"]
        assert parsed_version(f"{image['newTag']}@{image['digest']}") == version  # what agents find in the pods' image
        assert image["digest"].startswith("sha256:")


def test_versions_when_the_documents_list_them_then_as_the_agents_know_them() -> None:
    rows = dict(re.findall(r"^\| (\d+\.\d+\.\d+) \| (.*?) \|$", README, re.M))
    assert [version for version, told in rows.items() if told.startswith("test: ")] == [*TESTED]
    assert [version for version, told in rows.items() if told.startswith("its source")] == [*READ]
    for text, told in rows.items():
        version = parsed_version(text)
        assert version is not None
        assert told.endswith("with what keeps tenants apart" if is_patched(version) else "with every setting above")


def test_tests_when_the_documents_name_them_for_a_version_then_they_start_that_version() -> None:
    """Every variant is started by ``tests/stack/test_argocd.py``, the newest one by ``tests/argocd``."""
    rows = dict(re.findall(r"^\| (\d+\.\d+)\.\d+ \| (test: .*?) \|", README, re.M))
    assert {minor for minor, told in rows.items() if "`tests/stack/test_argocd.py`" in told} == {*ARGOCD_VARIANTS}
    assert [minor for minor, told in rows.items() if "`tests/argocd/`" in told] == [NEWEST_ARGOCD]
