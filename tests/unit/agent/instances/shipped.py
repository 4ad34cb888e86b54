"""Argo CD as ``k8s/argocd`` makes it, of any version."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import yaml

from devstack.setup.argocd_requirements import FOLDER, requirements
from services.agent.instances.workload_requirements import GENERATORS, PARAMETERS, Workloads
from services.common.argocd_names import CONTROLLER, REPO_SERVER
from services.common.kubernetes import Manifest

SHIPPED = {item["metadata"]["name"]: item for item in requirements()}
CONFIG: dict[str, str] = SHIPPED["argocd-cm"]["data"]
PROJECT: Manifest = SHIPPED["default"]


def workloads_of(
    tag: str,
    *,
    image: str = "",
    labels: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
    generators: Mapping[str, str] | None = None,
) -> Workloads:
    """Workloads with images of that tag, and with what is shipped unless something else is given."""
    made = image or f"quay.io/argoproj/argocd:{tag}"
    server = yaml.safe_load((FOLDER / "repo-server.yaml").read_text())
    controller = yaml.safe_load((FOLDER / "application-controller.yaml").read_text())
    for workload, name in ((server, REPO_SERVER), (controller, CONTROLLER)):
        container = workload["spec"]["template"]["spec"]["containers"][0]
        container["image"] = made
        assert container["name"] == name
        workload["metadata"]["labels"] = dict(labels or {})
    return Workloads(
        server,
        controller,
        copy.deepcopy(SHIPPED[PARAMETERS]["data"]) if parameters is None else parameters,
        SHIPPED[GENERATORS]["data"] if generators is None else generators,
    )
