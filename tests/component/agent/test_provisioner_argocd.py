"""Argo CD's own manifests, rendered as operators do, installed by the provisioner's account on a real API server.

No kubelet runs here: the API server says whether it takes every object, and whether pods would be admitted.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from rich.console import Console

from devstack.paths import ROOT
from devstack.toolchain import install as toolchain
from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES
from devstack.toolchain.progress_bar import reporter
from services.agent.provisioning.installation import CLUSTER_ROLE_BINDING, KINDS, Renderings, installation
from services.agent.provisioning.installer import Installer
from services.cli.installation.crds import read_manifests
from services.cli.installation.rbac import KINDS as KINDS_OF_RIGHTS
from services.common.kubernetes import POD, KubeClient, Manifest, Rejected
from services.common.messages import FleetInstance
from tests.component.agent.argocd_renderings import render_installation
from tests.component.agent.test_provisioner import eventually
from tests.component.agent.test_provisioner_rights import provisioner
from tests.component.k8s.manifests import workloads
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.agent.provisioning.renderings import bring_up, write

__all__ = ["provisioner"]

RIGHTS = ROOT / "k8s" / "argocd" / "rights"
BYTES_OF_A_CONFIG_MAP = 1024 * 1024
CONTROLLERS = {"gitops-service-argocd", "gitops-service-tenant"}


@pytest.fixture(scope="module")
def argocd() -> Build:
    return Build(ARGOCD_SOURCES, ARGOCD)


@pytest.fixture(scope="module")
def version(argocd: Build) -> str:
    return (argocd.source() / "VERSION").read_text().strip()


@pytest.fixture(scope="module")
def manifests(argocd: Build, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    with reporter(Console()) as report:
        kustomize = toolchain.generators(report) / "kustomize"
    source = argocd.source() / "manifests" / "namespace-install.yaml"
    return render_installation(kustomize, source, tmp_path_factory.mktemp("rendered"))


@pytest.fixture
def instance(version: str) -> FleetInstance:
    name = f"provisioned-{uuid4().hex[:8]}"
    return instance_row(name, namespace=name, wanted_version=version)


@pytest.fixture
async def rights(kube: KubeClient) -> None:
    """What an operator applies once for the cluster."""
    for path in sorted(RIGHTS.glob("*.yaml")):
        for manifest in read_manifests(path):
            if manifest["kind"] == "ClusterRole":
                await kube.apply_object(KINDS_OF_RIGHTS[manifest["kind"]], manifest, field_manager="tests")


@pytest.fixture
async def installer(
    rights: None,
    provisioner: KubeClient,
    manifests: list[Manifest],
    version: str,
    instance: FleetInstance,
    tmp_path: Path,
) -> Installer:
    """With the provisioner's rights alone; it has installed the instance."""
    write(tmp_path, version, manifests)
    made = Installer(provisioner, Renderings(tmp_path))
    assert await bring_up(made, instance) == len(manifests)
    return made


def test_manifests_when_rendered_as_the_readme_says_then_all_of_them_may_be_installed_and_three_versions_fit(
    manifests: list[Manifest], instance: FleetInstance
) -> None:
    assert {each.resource.kind for each in installation(manifests, instance)} == KINDS.keys()
    assert 3 * len(yaml.safe_dump_all(manifests).encode()) < BYTES_OF_A_CONFIG_MAP


async def test_argocd_when_installed_with_the_provisioners_rights_alone_then_it_is_there_whole_and_goes_whole(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    assert await bring_up(installer, instance) == 0
    for name in CONTROLLERS:
        binding = await kube.get_object(CLUSTER_ROLE_BINDING, None, f"{name}-{instance.id}")
        assert [each["namespace"] for each in binding["subjects"]] == [instance.namespace]
    await installer.remove(instance)
    await eventually(lambda: installer.remove(instance))


@pytest.mark.usefixtures("installer")
async def test_pods_of_argocd_when_created_where_a_provisioner_installs_then_the_api_server_admits_them(
    kube: KubeClient, manifests: list[Manifest], instance: FleetInstance
) -> None:
    for name, template in workloads(manifests).items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": instance.namespace},
            "spec": template["spec"],
        }
        await kube.create_object(POD, pod, field_manager="tests")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "on-its-node", "namespace": instance.namespace},
        "spec": {"hostNetwork": True, "containers": [{"name": "any", "image": "any"}]},
    }
    with pytest.raises(Rejected, match="violates PodSecurity"):
        await kube.create_object(POD, pod, field_manager="tests")
