"""Rendered manifests, as small as an installation can be."""

from __future__ import annotations

from pathlib import Path

import yaml

from services.agent.provisioning.installer import Installer
from services.common.kubernetes import Manifest
from services.common.messages import FleetInstance

BEFORE = "gitops-service-argocd"
ACCOUNT = {"kind": "ServiceAccount", "name": "argocd-application-controller", "namespace": BEFORE}
AGENT = {"kind": "ServiceAccount", "name": "agent", "namespace": "gitops-service"}


def named(api_version: str, kind: str, name: str, **more: object) -> Manifest:
    metadata = {"name": name, "namespace": BEFORE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def pods(version: str) -> Manifest:
    labels = {"app.kubernetes.io/name": "argocd-application-controller"}
    container = {"name": "argocd-application-controller", "image": f"quay.io/argoproj/argocd:v{version}"}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }


def rendered(version: str) -> list[Manifest]:
    rbac = "rbac.authorization.k8s.io/v1"
    reads = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gitops-service-argocd"}
    agents = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gitops-service-agent"}
    binding = named(rbac, "ClusterRoleBinding", "gitops-service-argocd", roleRef=reads, subjects=[dict(ACCOUNT)])
    del binding["metadata"]["namespace"]
    return [
        named("apps/v1", "StatefulSet", "argocd-application-controller", spec={**pods(version), "serviceName": "x"}),
        named("v1", "ConfigMap", "argocd-cm", data={"installationID": "gitops-service-argocd"}),
        named("v1", "ServiceAccount", "argocd-application-controller"),
        named(
            rbac, "Role", "gitops-service-agent", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        ),
        named(rbac, "RoleBinding", "gitops-service-agent", roleRef=agents, subjects=[dict(AGENT)]),
        binding,
    ]


def write(folder: Path, name: str, manifests: list[Manifest]) -> None:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(manifests))


async def bring_up(installer: Installer, instance: FleetInstance) -> int:
    """Have it installed as the release has it now, whatever others have."""
    return (await installer.install(instance, installer.rendering_of(instance))).changed
