"""Argo CD's own manifests as an operator renders them for a provisioner: k8s/README.md."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import yaml

from services.common.kubernetes import Manifest
from tests.component.k8s.manifests import FOLDER, built

NAMESPACE = "gitops-service-argocd"


def render_installation(kustomize: Path, argocd: Path, folder: Path, *profile: str) -> list[Manifest]:
    """What ``kustomize build`` makes of one version; ``argocd`` is its ``namespace-install.yaml``."""
    shutil.copyfile(argocd, folder / "argocd.yaml")
    components = [os.path.relpath(FOLDER / "provisioner" / name, folder) for name in ("installation", *profile)]
    wanted = {"namespace": NAMESPACE, "resources": ["argocd.yaml"], "components": components}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    return built(kustomize, folder)
