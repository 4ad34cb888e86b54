"""An instance that no agent can reach any more: its tenants go on elsewhere, and it gives them up when it is back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import ApiResource, KubeClient, Manifest
from tests.e2e.moving import Mover
from tests.e2e.operators import of_instances
from tests.e2e.tenant import Tenant, application_name, path

ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
RIGHTS = "gitops-service-agent"
AGENTS = ("agent-1", "agent-2")
EVACUATED_SECONDS, BACK_SECONDS = 120, 120


async def close(stack: HostedStack, kube: KubeClient, namespace: str) -> Manifest:
    """Agents may not look at an instance any more; its Argo CD works on. Returns the rights that are gone.

    Agents that start find out at once; others would within minutes.
    """
    rights = await kube.get_object(ROLE_BINDING, namespace, RIGHTS)
    await kube.delete_object(ROLE_BINDING, namespace, RIGHTS)
    for name in AGENTS:
        await asyncio.to_thread(stack.kill, name)
        await asyncio.to_thread(stack.start, name)
    return {name: rights[name] for name in ("apiVersion", "kind", "roleRef", "subjects")} | {
        "metadata": {"name": RIGHTS, "namespace": namespace}
    }


async def until_at(applications: Mirror, name: str, namespace: str, seconds: float) -> Manifest:
    await applications.until(f"{name} is in {namespace}", lambda objects: (namespace, name) in objects, seconds)
    found: Manifest = applications.objects[namespace, name]
    return found


def listed(stack: HostedStack, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(of_instances(stack, *arguments, "-o", "json").stdout)
    return found


async def test_tenants_when_nobody_can_reach_their_instance_then_they_go_on_elsewhere_and_it_releases_them_when_back(
    stack: HostedStack, kube: KubeClient, tenant: Tenant, applications: Mirror
) -> None:
    created = await tenant.create()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    mover, name = Mover(stack, tenant, applications), application_name(created)
    (source,) = mover.places(created)
    target = await mover.target(created)
    rights = await close(stack, kube, source)

    before = await until_at(applications, name, target, EVACUATED_SECONDS)
    (remedy,) = await asyncio.to_thread(listed, stack, "remedies")
    assert (remedy["instance"], remedy["cordoned"]) == (source, True)
    await tenant.patch("web", path("apps/meanwhile"))
    await applications.until(
        "the change is on the target",
        lambda objects: objects[target, name]["spec"]["source"]["path"] == "apps/meanwhile",
    )
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    assert (source, name) in applications.objects  # its Argo CD has it still, and no agent can take it away

    await kube.create_object(ROLE_BINDING, rights, field_manager="test")
    await applications.until("it is released", lambda objects: (source, name) not in objects, BACK_SECONDS)
    assert applications.objects[target, name]["metadata"]["uid"] == before["metadata"]["uid"]
    await mover.until_done()
    await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    past = [each["message"].partition(" ")[0] for each in await asyncio.to_thread(listed, stack, "remedies", "--past")]
    assert past[:3] == ["ReapplyConfiguration", "Cordon", "Evacuate"]
