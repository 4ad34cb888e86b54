"""What tenancy needs of an Argo CD, as a stack takes it: ``k8s/argocd``, which operators include in an installation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from devstack.paths import ROOT
from services.common.kubernetes.builtin_kinds import Manifest

FOLDER = ROOT / "k8s" / "argocd"
RIGHTS = FOLDER / "rights"
"""What its application controllers may do in their own cluster."""
PARAMETERS = "argocd-cmd-params-cm"
REPO_SERVER_VARIABLES = {
    "reposerver.enable.git.submodule": "ARGOCD_GIT_MODULES_ENABLED",
    "reposerver.parallelism.limit": "ARGOCD_REPO_SERVER_PARALLELISM_LIMIT",
    "reposerver.max.combined.directory.manifests.size": "ARGOCD_REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE",
    "reposerver.helm.manifest.max.extracted.size": "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
}
"""Argo CD's own Deployments take them from the config map, and there are no pods here."""
CONTROLLER_VARIABLES = {
    "controller.status.processors": "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS",
    "controller.operation.processors": "ARGOCD_APPLICATION_CONTROLLER_OPERATION_PROCESSORS",
    "controller.kubectl.parallelism.limit": "ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT",
    "controller.repo.server.timeout.seconds": "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_TIMEOUT_SECONDS",
    "controller.resource.health.persist": "ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH",
}
TIMEOUT = "ARGOCD_EXEC_TIMEOUT"


def requirements() -> Iterator[Manifest]:
    """Without a namespace: who applies them puts them there."""
    for path in sorted(FOLDER.glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text())
        if "metadata" not in manifest or manifest["kind"] in {
            "Deployment",
            "StatefulSet",
        }:  # of kustomize's own; there are no pods
            continue
        yield manifest


def repo_server_environment() -> dict[str, str]:
    """The parameters that tenancy needs, as variables."""
    container = _read("repo-server.yaml")["spec"]["template"]["spec"]["containers"][0]
    timeout = next(variable["value"] for variable in container["env"] if variable["name"] == TIMEOUT)
    return _environment(REPO_SERVER_VARIABLES) | {TIMEOUT: timeout}


def controller_environment() -> dict[str, str]:
    """The same of the application controller."""
    return _environment(CONTROLLER_VARIABLES)


def install_generators(folder: Path) -> None:
    """What the repo server calls in place of kustomize and helm, as its pod has it mounted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (volume,) = _read("repo-server.yaml")["spec"]["template"]["spec"]["volumes"]
    scripts = _read("generators.yaml")["data"]
    for item in volume["configMap"]["items"]:
        path = folder / item["path"]
        path.write_text(scripts[item["key"]])
        path.chmod(item["mode"])


def _environment(variables: dict[str, str]) -> dict[str, str]:
    parameters = _read(f"{PARAMETERS}.yaml")["data"]
    return {variable: parameters[name] for name, variable in variables.items()}


def _read(file: str) -> Any:
    return yaml.safe_load((FOLDER / file).read_text())
