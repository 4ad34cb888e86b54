"""The profile that k8s/provisioner ships: the same installation, but for how much it does at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES
from services.agent.instances.engine_requirements import Acceptance, Found, verdicts
from services.agent.instances.workload_requirements import GENERATORS, PARAMETERS, Workloads
from services.common.argocd_names import CONTROLLER, REPO_SERVER
from services.common.kubernetes import Manifest
from tests.component.agent.argocd_renderings import NAMESPACE, render_installation
from tests.component.k8s.manifests import differences, of_kind

PROFILE, CONFIG = "large", "argocd-cm"
CONTAINER = ("spec", "template", "spec", "containers", CONTROLLER, "env")


@pytest.fixture(scope="module")
def usual(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return rendered(kustomize, tmp_path_factory.mktemp("usual"))


@pytest.fixture(scope="module")
def large(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return rendered(kustomize, tmp_path_factory.mktemp(PROFILE), PROFILE)


def rendered(kustomize: Path, folder: Path, *profile: str) -> list[Manifest]:
    argocd = Build(ARGOCD_SOURCES, ARGOCD).source() / "manifests" / "namespace-install.yaml"
    return render_installation(kustomize, argocd, folder, *profile)


def test_profile_when_compared_with_the_usual_then_processors_parallelism_calls_and_interval_differ_and_nothing_else(
    usual: list[Manifest], large: list[Manifest]
) -> None:
    variables = ("ARGOCD_K8S_CLIENT_QPS", "ARGOCD_K8S_CLIENT_BURST")
    assert differences(usual, large) == {
        ("ConfigMap", NAMESPACE, PARAMETERS): {
            ("data", "controller.status.processors"),
            ("data", "controller.operation.processors"),
            ("data", "reposerver.parallelism.limit"),
        },
        ("ConfigMap", NAMESPACE, CONFIG): {("data", "timeout.reconciliation")},
        ("StatefulSet", NAMESPACE, CONTROLLER): {
            (*CONTAINER, name, field) for name in variables for field in ("name", "value")
        },
    }


def test_profile_when_installed_then_agents_find_nothing_missing(large: list[Manifest]) -> None:
    maps = of_kind("ConfigMap", large)
    workloads = Workloads(
        of_kind("Deployment", large)[REPO_SERVER],
        of_kind("StatefulSet", large)[CONTROLLER],
        maps[PARAMETERS]["data"],
        maps[GENERATORS]["data"],
    )
    found = Found(maps[CONFIG]["data"], of_kind("AppProject", large)["default"], workloads)
    (verdict,) = verdicts({"large": found}, Acceptance()).values()
    assert (verdict.shortcomings, verdict.refusal) == ((), "")
