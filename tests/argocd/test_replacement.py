"""An Argo CD instance that is replaced by an empty one: its tenants are deployed again, and nothing is taken down."""

from __future__ import annotations

from services.cli.dev.hosted import HostedStack
from services.common.kube import APP_PROJECT, APPLICATION, SECRET, KubeClient, NotFound, Resource
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Sources, config_map
from tests.argocd.test_outages import CONTROLLERS, REPO_SERVERS, without
from tests.e2e.tenant import USER, Tenant

CACHES = ("argocd-redis-1", "argocd-redis-2")
OURS = "app.kubernetes.io/managed-by=gitops-service"


async def test_instance_when_it_is_replaced_then_its_tenants_are_deployed_again(
    stack: HostedStack, tenant: Tenant, source: Sources, deployed: Deployed, kube: KubeClient
) -> None:
    repository = source(config_map("before"))
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", **HEALTHY)
    former = await tenant.application_of(created)
    async with without(stack, *CONTROLLERS, *REPO_SERVERS, *CACHES):
        for resource in (APPLICATION, SECRET, APP_PROJECT):
            await lose(kube, resource, former["metadata"]["namespace"])
    repository.commit(config_map("after"))
    await deployed.until(tenant.namespace, "after")
    await tenant.until_status("deployed", **HEALTHY)
    assert (await tenant.application_of(created))["metadata"]["uid"] != former["metadata"]["uid"]


async def lose(kube: KubeClient, resource: Resource, namespace: str) -> None:
    """All that we had in the instance, as if it had never been."""
    async for page in kube.pages(resource, namespace, selector=OURS):
        for item in page.items:
            name = item["metadata"]["name"]
            try:
                await kube.patch(resource, namespace, name, {"metadata": {"finalizers": None}}, field_manager=USER)
                await kube.delete(resource, namespace, name)
            except NotFound:
                continue
