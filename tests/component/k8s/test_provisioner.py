"""``k8s/provisioner`` as an operator completes it: k8s/README.md."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from services.agent.provisioning.settings import ProvisionerSettings
from services.common.kubernetes import Manifest
from services.common.settings import load
from tests.component.k8s.manifests import FOLDER, built, containers, of_kind, variables, workloads
from tests.component.k8s.readme import blocks

NAME = "provisioner"
SECRETS = {("kafka-provisioner", "password"): "a password", ("registry-provisioner", "token"): "a token"}


@pytest.fixture(scope="module")
def overlay(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The kustomization of the README, with empty manifests of each version that it names."""
    folder = tmp_path_factory.mktemp("overlay")
    kustomization = yaml.safe_load("\n".join(first_block()))
    kustomization["resources"] = [os.path.relpath(FOLDER / "provisioner", folder)]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    for name in kustomization["configMapGenerator"][1]["files"]:
        (folder / name).touch()
    return built(kustomize, folder)


def first_block() -> list[str]:
    """Up to the kustomization of one version."""
    lines = blocks("yaml")["A provisioner"]
    return lines[: next(number for number, line in enumerate(lines) if line.startswith("# installations/"))]


def environment(overlay: list[Manifest]) -> dict[str, str]:
    maps = of_kind("ConfigMap", overlay)
    (container,) = containers(workloads(overlay)[NAME])
    return variables(container, lambda name: maps[name]["data"], lambda name, key: SECRETS[name, key])


def test_provisioner_when_deployed_then_it_takes_its_settings_and_knows_every_one(
    overlay: list[Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = environment(overlay)
    assert found.keys() <= {name.upper() for name in ProvisionerSettings.model_fields}
    there = {"INSTALLATIONS": tmp_path, "KAFKA_CA": tmp_path / "ca", "SCHEMA_REGISTRY_CA": tmp_path / "ca"}
    (tmp_path / "ca").touch()
    for name, value in (found | {name: str(path) for name, path in there.items()}).items():
        monkeypatch.setenv(name, value)
    assert load(ProvisionerSettings).engine_cluster == "default"


def test_installations_when_deployed_then_they_are_the_files_of_the_overlay_where_the_provisioner_looks(
    overlay: list[Manifest],
) -> None:
    (container,) = containers(workloads(overlay)[NAME])
    (mounted,) = [each for each in container["volumeMounts"] if each["name"] == "installations"]
    assert mounted == {
        "name": "installations", "mountPath": environment(overlay)["INSTALLATIONS"], "readOnly": True,
    }  # fmt: skip
    volumes = workloads(overlay)[NAME]["spec"]["volumes"]
    (named,) = [each["configMap"]["name"] for each in volumes if each["name"] == "installations"]
    assert of_kind("ConfigMap", overlay)[named]["data"].keys() == {"3.4.13.yaml", "3.4.13-large.yaml"}


def test_provisioner_when_deployed_then_its_pod_is_restricted_probed_and_has_the_one_token_that_it_needs(
    overlay: list[Manifest],
) -> None:
    spec = workloads(overlay)[NAME]["spec"]
    (container,) = containers(workloads(overlay)[NAME])
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert {"livenessProbe", "readinessProbe", "resources"} <= container.keys()
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == (NAME, True)


def test_version_when_rendered_as_the_readme_says_then_its_component_is_the_one_that_there_is() -> None:
    lines = blocks("yaml")["A provisioner"]
    version = yaml.safe_load("\n".join(lines[len(first_block()) :]))
    (component,) = version["components"]
    assert (FOLDER / component.removeprefix("../../k8s/") / "kustomization.yaml").is_file()
