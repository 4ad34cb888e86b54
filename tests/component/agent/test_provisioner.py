"""An installation on a real API server: made, kept as it has to be, and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from services.agent.provisioning.installation import (
    CLUSTER_ROLE_BINDING,
    INSTANCE_LABEL,
    SERVICE_ACCOUNT,
    Renderings,
)
from services.agent.provisioning.installer import Installed, Installer
from services.common.errors import Permanent, Wait
from services.common.kubernetes import APPLICATION, CONFIG_MAP, NAMESPACE, STATEFUL_SET, KubeClient, Manifest, NotFound
from services.common.messages import FleetInstance
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.agent.provisioning.renderings import bring_up, rendered, write

MANAGER = "somebody"
WITHIN_SECONDS, LOOK_EVERY_SECONDS = 60.0, 0.2


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return once it does; fail if that takes too long."""
    over = asyncio.get_running_loop().time() + WITHIN_SECONDS
    while not await holds():
        assert asyncio.get_running_loop().time() < over
        await asyncio.sleep(LOOK_EVERY_SECONDS)


@pytest.fixture
def instance() -> FleetInstance:
    name = f"provisioned-{uuid4().hex[:8]}"
    return instance_row(name, namespace=name, wanted_version="3.2.11")


@pytest.fixture
def renderings(tmp_path: Path) -> Renderings:
    for version in ("3.2.11", "3.1.16"):
        write(tmp_path, version, rendered(version))
    write(tmp_path, "3.2.11-less", [each for each in rendered("3.2.11") if each["kind"] != "ConfigMap"])
    return Renderings(tmp_path)


@pytest.fixture
def installer(kube: KubeClient, renderings: Renderings) -> Installer:
    return Installer(kube, renderings)


async def image_of(kube: KubeClient, instance: FleetInstance) -> Any:
    controller = await kube.get_object(STATEFUL_SET, instance.namespace, "argocd-application-controller")
    return controller["spec"]["template"]["spec"]["containers"][0]["image"]


def application(namespace: str, name: str) -> Manifest:
    source = {"repoURL": "https://example.com/x.git", "path": "."}
    spec = {"project": "default", "source": source, "destination": {"namespace": "x"}}
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec}


async def test_installation_when_made_then_it_is_all_there_and_nothing_is_written_again(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    wanted = installer.rendering_of(instance)
    made = Installed(len(rendered("3.2.11")), is_rolled_out=False)
    assert await installer.install(instance, wanted) == made, "nobody has looked at the workloads yet"
    assert await installer.install(instance, wanted) == Installed(0, is_rolled_out=True)
    assert await image_of(kube, instance) == "quay.io/argoproj/argocd:v3.2.11"
    binding = await kube.get_object(CLUSTER_ROLE_BINDING, None, f"gitops-service-argocd-{instance.id}")
    assert [each["namespace"] for each in binding["subjects"]] == [instance.namespace]


async def test_installation_when_somebody_meddles_with_it_then_that_alone_is_undone(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    await bring_up(installer, instance)
    meddled = {"data": {"installationID": "", "theirs": "stays"}}
    await kube.patch_object(CONFIG_MAP, instance.namespace, "argocd-cm", meddled, field_manager=MANAGER)
    await kube.delete_object(STATEFUL_SET, instance.namespace, "argocd-application-controller")
    await eventually(lambda: _is_gone(kube, instance))
    assert await bring_up(installer, instance) == 2
    config = await kube.get_object(CONFIG_MAP, instance.namespace, "argocd-cm")
    assert config["data"] == {"installationID": "gitops-service-argocd", "theirs": "stays"}


async def _is_gone(kube: KubeClient, instance: FleetInstance) -> bool:
    try:
        await image_of(kube, instance)
    except NotFound:
        return True
    return False


async def test_installation_when_its_configuration_is_applied_anew_then_what_others_have_added_is_gone_and_once(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    await bring_up(installer, instance)
    meddled = {"data": {"theirs": "goes"}}
    await kube.patch_object(CONFIG_MAP, instance.namespace, "argocd-cm", meddled, field_manager=MANAGER)
    before = await kube.get_object(STATEFUL_SET, instance.namespace, "argocd-application-controller")
    account = await kube.get_object(SERVICE_ACCOUNT, instance.namespace, "argocd-application-controller")
    # API servers tell time to the second: what is made from here on is younger.
    made_at = datetime.fromisoformat(before["metadata"]["creationTimestamp"])
    ordered = replace(instance, reapply_ordered_at=made_at + timedelta(seconds=1))
    await eventually(lambda: _is_past(ordered))
    assert await bring_up(installer, ordered) == 2
    config = await kube.get_object(CONFIG_MAP, instance.namespace, "argocd-cm")
    after = await kube.get_object(STATEFUL_SET, instance.namespace, "argocd-application-controller")
    assert config["data"] == {"installationID": "gitops-service-argocd"}
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert await bring_up(installer, ordered) == 0
    assert await kube.get_object(SERVICE_ACCOUNT, instance.namespace, "argocd-application-controller") == account


async def _is_past(instance: FleetInstance) -> bool:
    return instance.reapply_ordered_at is not None and datetime.now(UTC) >= instance.reapply_ordered_at


async def test_installation_when_another_version_or_profile_is_wanted_then_it_becomes_that(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    await bring_up(installer, instance)
    assert await bring_up(installer, replace(instance, wanted_version="3.1.16")) == 1
    assert await image_of(kube, instance) == "quay.io/argoproj/argocd:v3.1.16"
    await bring_up(installer, replace(instance, profile="less"))
    with pytest.raises(NotFound):
        await kube.get_object(CONFIG_MAP, instance.namespace, "argocd-cm")


async def test_namespace_when_it_is_somebody_elses_then_nothing_is_made_in_it_nor_removed(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": instance.namespace}}
    await kube.create_object(NAMESPACE, theirs, field_manager=MANAGER)
    with pytest.raises(Permanent, match="is there already and was not made for instance"):
        await bring_up(installer, instance)
    with pytest.raises(NotFound):
        await image_of(kube, instance)
    assert await installer.remove(instance)
    assert "deletionTimestamp" not in (await kube.get_object(NAMESPACE, None, instance.namespace))["metadata"]


async def test_installation_when_removed_then_nothing_is_left_of_it_unless_a_tenant_has_something_there(
    kube: KubeClient, installer: Installer, instance: FleetInstance
) -> None:
    await bring_up(installer, instance)
    for name in ("web", "gitops-service-heartbeat"):
        await kube.create_object(APPLICATION, application(instance.namespace, name), field_manager=MANAGER)
    with pytest.raises(Wait, match="it still has Application web"):
        await installer.remove(instance)
    assert await bring_up(installer, instance) == 0
    await kube.delete_object(APPLICATION, instance.namespace, "web")
    await installer.remove(instance)
    await eventually(lambda: installer.remove(instance))
    bindings = [
        page async for page in kube.list_pages(CLUSTER_ROLE_BINDING, selector=f"{INSTANCE_LABEL}={instance.id}")
    ]
    assert [page.items for page in bindings] == [[]]
    with pytest.raises(NotFound):
        await kube.get_object(NAMESPACE, None, instance.namespace)
