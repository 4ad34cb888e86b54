"""docs/operations/canary.md, typed on a copy of the example: a step is what runs but for what the page's table says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from devstack.paths import DOCS
from services.common.kubernetes import Manifest
from tests.component.k8s.manifests import FOLDER, PART, SERVICES, built, differences, of_kind
from tests.component.k8s.readme import carry_out, commands
from tests.component.k8s.test_accepted import api, apply

__all__ = ["api"]

PAGE = (DOCS / "operations" / "canary.md").read_text()
STEPS: dict[str, dict[str, str]] = {
    name: dict(zip(("planner", "agent", "watcher"), (planner, agent, watcher), strict=True))
    for name, planner, agent, watcher in re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|", PAGE, re.MULTILINE)
}
"""How much of each Deployment is new in a step's overlay."""
RELEASE = {"IMAGE": "registry.example.com/next", "DIGEST": f"sha256:{'1' * 64}"}
IMAGE = ("spec", "template", "spec", "containers", "service", "image")
HOLD = {("spec", "minReadySeconds"), ("spec", "progressDeadlineSeconds")}
CHANGED = {"old": set[Any](), "new": {IMAGE}, "one is new": {IMAGE, *HOLD}}


@pytest.fixture(scope="module")
def overlay(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's own, beside which the page's first commands have been typed."""
    folder = tmp_path_factory.mktemp("canary")
    shutil.copytree(FOLDER, folder / "k8s")
    overlay = shutil.copytree(FOLDER / "overlays" / "example", folder / "k8s" / "overlays" / "mine")
    for command in commands("Prepare", PAGE):
        carry_out(command, folder, RELEASE | {"O": str(overlay)}, kustomize)
    return overlay


@pytest.fixture(scope="module")
def running(kustomize: Path, overlay: Path) -> list[Manifest]:
    return built(kustomize, overlay)


@pytest.fixture(params=STEPS)
def step(request: pytest.FixtureRequest) -> str:
    """Name of an overlay of the page's table."""
    return str(request.param)


@pytest.fixture
def canary(kustomize: Path, overlay: Path, step: str) -> list[Manifest]:
    return built(kustomize, overlay.with_name(f"{overlay.name}-canary") / step)


def test_table_when_read_then_each_service_has_its_canary_after_planners() -> None:
    assert [name for name, parts in STEPS.items() if parts[name] == "one is new"] == ["planner", "agent", "watcher"]
    assert {part for parts in STEPS.values() for part in parts} == {*SERVICES}


def test_step_when_compared_with_what_runs_then_it_differs_as_the_table_says_and_in_nothing_else(
    running: list[Manifest], canary: list[Manifest], step: str
) -> None:
    expected = {("Deployment", "gitops-service", name): CHANGED[how] for name, how in STEPS[step].items()}
    assert differences(running, canary) == {place: paths for place, paths in expected.items() if paths}


def test_step_when_rendered_then_what_is_new_is_of_the_one_release(canary: list[Manifest], step: str) -> None:
    images = {
        name: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for name, each in of_kind("Deployment", canary).items()
    }
    new = {name for name, image in images.items() if image == f"{RELEASE['IMAGE']}@{RELEASE['DIGEST']}"}
    assert new == {name for name, how in STEPS[step].items() if how != "old"}


def test_step_when_applied_then_the_api_server_takes_it(api: httpx2.Client, canary: list[Manifest], step: str) -> None:
    deployment = of_kind("Deployment", canary)[step]
    assert apply(api, deployment, dryRun="All") == ""


def test_canary_when_it_is_there_then_the_next_pod_waits_longer_than_anybody_looks(
    canary: list[Manifest], step: str
) -> None:
    spec = of_kind("Deployment", canary)[step]["spec"]
    assert spec["minReadySeconds"] == 7 * 24 * 3600
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_release_when_all_steps_are_done_then_the_running_overlay_has_its_image(
    kustomize: Path, overlay: Path, tmp_path: Path
) -> None:
    shutil.copytree(overlay.parents[1], tmp_path / "k8s")
    mine = tmp_path / "k8s" / "overlays" / "mine"
    (named,) = [command for command in commands("All of it", PAGE) if command.startswith("sed")]
    carry_out(named, tmp_path, RELEASE | {"O": str(mine)}, kustomize)
    deployments = of_kind("Deployment", built(kustomize, mine))
    images = {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in deployments.values()}
    assert images == {f"{RELEASE['IMAGE']}@{RELEASE['DIGEST']}"}


def test_commands_when_they_apply_an_overlay_then_it_is_one_of_the_table_and_labels_are_those_of_pods() -> None:
    typed = [command for section in ("A planner", "An agent", "A watcher") for command in commands(section, PAGE)]
    applied = [name for line in typed if " apply " in line for name in re.findall(r"-k \$O-canary/(\w+)", line)]
    assert applied == [*STEPS]
    assert {label for line in typed for label in re.findall(r"-l ([\w./-]+)=", line)} == {PART}
