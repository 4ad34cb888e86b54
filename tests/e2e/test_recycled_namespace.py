"""A namespace is deleted and made again under its name: who gets it finds nothing of before."""

from __future__ import annotations

from services.common.kubernetes import NAMESPACE, KubeClient
from tests.e2e.tenant import Tenant, create_namespace


async def make_again(kube: KubeClient, name: str) -> None:
    """As the controller of namespaces does, which does not run here; its resources stay, and nobody tells of them."""
    await kube.delete_object(NAMESPACE, None, name)
    ended = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
    await kube._call("PUT", NAMESPACE.path(None, name, "finalize"), body=ended)
    await create_namespace(kube, name)


async def test_namespace_when_it_is_made_again_then_what_was_deployed_from_it_before_goes(tenant: Tenant) -> None:
    before = await tenant.create("before")
    await tenant.until_status("Synced", "before", sync__status="Synced")
    await make_again(tenant.kube, tenant.namespace)
    await tenant.create("after")
    await tenant.until_application_gone(before)
    await tenant.until_status("Synced", "after", sync__status="Synced")
