"""What tenancy needs of an Argo CD, as a stack takes it: ``k8s/argocd``, which operators include in an installation."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from devstack.paths import ROOT
from services.common.kubernetes.resources import Manifest

FOLDER = ROOT / "k8s" / "argocd"
CONFIG = "argocd-cm"
INSTALLATION_ID = "installationID"
PARAMETERS = "argocd-cmd-params-cm"
VARIABLES = {"reposerver.enable.git.submodule": "ARGOCD_GIT_MODULES_ENABLED"}
"""Of the repo server: Argo CD's own Deployment takes them from the config map, and there are no pods here."""


def requirements(namespace: str) -> Iterator[Manifest]:
    """For the instance in ``namespace``; who applies them puts them there."""
    for path in sorted(FOLDER.glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text())
        if "metadata" not in manifest:  # of kustomize's own
            continue
        if manifest["metadata"]["name"] == CONFIG:
            manifest["data"][INSTALLATION_ID] = namespace
        yield manifest


def repo_server_environment() -> dict[str, str]:
    """The parameters that tenancy needs, as variables."""
    parameters = yaml.safe_load((FOLDER / f"{PARAMETERS}.yaml").read_text())["data"]
    return {VARIABLES[name]: value for name, value in parameters.items()}
