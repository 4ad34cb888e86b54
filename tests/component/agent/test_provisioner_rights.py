"""What the provisioner's account may do on a real API server: install what Argo CD needs, and nothing anywhere else."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from devstack.paths import ROOT
from services.agent.provisioning.installation import CLUSTER_ROLE_BINDING, INSTANCE_LABEL, Renderings
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.records import FIELD_MANAGER
from services.agent.provisioning.waves import begun
from services.cli.installation.crds import read_manifests
from services.cli.installation.rbac import KINDS
from services.common.kubernetes import CONFIG_MAP, NAMESPACE, SECRET, AlreadyExists, KubeClient, Rejected, connect
from tests.component.agent.test_provisioner import eventually
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.agent.provisioning.renderings import bring_up, rendered, write

RIGHTS = (ROOT / "k8s" / "provisioner" / "rights.yaml", ROOT / "k8s" / "argocd" / "rights" / "reads.yaml")
ACCOUNT = "provisioner"
HOME = "gitops-service"


@pytest.fixture
async def provisioner(kube: KubeClient, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client with the account's own rights, once its policy is in force."""
    with suppress(AlreadyExists):
        await kube.create_object(NAMESPACE, _namespace(HOME), field_manager="tests")
    for path in RIGHTS:
        for manifest in read_manifests(path):
            await kube.apply_object(KINDS[manifest["kind"]], manifest, field_manager="tests")
    own = _kubeconfig(kubeconfig, await _token(kube), tmp_path / "provisioner.kubeconfig")
    async with await connect(own) as client:
        await eventually(lambda: _is_confined(client))
        yield client


def _kubeconfig(administrators: Path, token: str, own: Path) -> Path:
    config = yaml.safe_load(administrators.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    own.write_text(yaml.safe_dump(config))
    return own


async def _token(kube: KubeClient) -> str:
    name = f"provisioner-{uuid4().hex[:8]}"
    metadata = {"name": name, "namespace": HOME, "annotations": {"kubernetes.io/service-account.name": ACCOUNT}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"}
    await kube.create_object(SECRET, secret, field_manager="tests")
    found: dict[str, Any] = {}

    async def is_filled() -> bool:
        found.update((await kube.get_object(SECRET, HOME, name)).get("data") or {})
        return "token" in found

    await eventually(is_filled)
    return base64.b64decode(found["token"]).decode()


def _namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _config(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"x-{uuid4().hex[:8]}", "namespace": namespace},
    }


async def _is_confined(client: KubeClient) -> bool:
    """Rights and policy are taken up a moment after they were written."""
    try:
        await client.create_object(CONFIG_MAP, _config("default"), field_manager=FIELD_MANAGER)
    except Rejected as error:
        return "only to namespaces that it has made" in str(error)
    return False


async def test_provisioner_when_it_has_its_own_rights_alone_then_it_installs_and_removes(
    provisioner: KubeClient, tmp_path: Path
) -> None:
    write(tmp_path, "3.2.11", rendered("3.2.11"))
    installer = Installer(provisioner, Renderings(tmp_path))
    name = f"provisioned-{uuid4().hex[:8]}"
    instance = instance_row(name, namespace=name, wanted_version="3.2.11")
    assert await bring_up(installer, instance) == len(rendered("3.2.11"))
    assert await bring_up(installer, instance) == 0
    record = begun(instance, "digest")
    await installer.records.write(instance, record)
    assert await installer.records.read(instance) == record
    await installer.remove(instance)
    await eventually(lambda: installer.remove(instance))


async def test_provisioner_when_it_would_write_anywhere_else_then_the_api_server_refuses(
    provisioner: KubeClient, namespace: str
) -> None:
    controller = "argocd-application-controller"
    forbidden = (
        (CONFIG_MAP, _config(namespace), "only to namespaces that it has made"),
        (CONFIG_MAP, _config(HOME), "only to namespaces that it has made"),
        (NAMESPACE, _namespace(f"other-{uuid4().hex[:8]}"), "only namespaces of engine instances"),
        (
            NAMESPACE,
            _namespace(f"other-{uuid4().hex[:8]}", **{INSTANCE_LABEL: "one"}),
            "only namespaces whose pods are restricted",
        ),
        (CLUSTER_ROLE_BINDING, _binding("somebody", "gitops-service-argocd"), "binds only application controllers"),
        # RBAC comes first: it may not give away what it does not have.
        (CLUSTER_ROLE_BINDING, _binding(controller, "cluster-admin"), "attempting to grant RBAC permissions"),
    )
    for resource, manifest, why in forbidden:
        with pytest.raises(Rejected, match=why):
            await provisioner.create_object(resource, manifest, field_manager=FIELD_MANAGER)
    with pytest.raises(Rejected, match="only namespaces of engine instances"):
        await provisioner.delete_object(NAMESPACE, None, namespace)
    labelled = {"metadata": {"labels": {INSTANCE_LABEL: "mine"}}}
    with pytest.raises(Rejected):
        await provisioner.patch_object(NAMESPACE, None, namespace, labelled, field_manager=FIELD_MANAGER)


def _binding(account: str, role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"x-{uuid4().hex[:8]}", "labels": {INSTANCE_LABEL: "one"}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
    }
