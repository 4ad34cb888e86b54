"""A namespace is deleted and made again under its name: who gets it finds nothing of before, and may use nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import NAMESPACE, SECRET, ApiResource, KubeClient
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, create_namespace, find

REMOTE = {"environment": "prod", "namespace": "web"}
HOLD = "e2e.example.com/hold"
"""A finalizer: what has it stays until an agent gives up waiting."""


async def end_namespace(kube: KubeClient, name: str, *contents: tuple[ApiResource, str]) -> None:
    """Delete a namespace with what is in it, as the controller of namespaces does, which does not run here."""
    for resource, each in contents:
        await kube.delete_object(resource, name, each)
    await kube.delete_object(NAMESPACE, None, name)
    ended = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
    await kube._call("PUT", NAMESPACE.path(None, name, "finalize"), body=ended)


@asynccontextmanager
async def made_again(
    stack: HostedStack, kube: KubeClient, name: str, *contents: tuple[ApiResource, str]
) -> AsyncIterator[None]:
    """No watcher sees it, nor what the block does."""
    await asyncio.to_thread(stack.kill, "watcher")
    await end_namespace(kube, name, *contents)
    await create_namespace(kube, name)
    yield
    await asyncio.to_thread(stack.start, "watcher")


async def test_namespace_when_it_is_made_again_then_what_was_deployed_from_it_before_goes(
    stack: HostedStack, tenant: Tenant
) -> None:
    before = await tenant.create("before")
    await tenant.until_status("Synced", "before", sync__status="Synced")
    async with made_again(stack, tenant.kube, tenant.namespace, (GITOPS_DEPLOYMENT, "before")):
        await tenant.create("after")
    await tenant.until_application_gone(before)
    await tenant.until_status("Synced", "after", sync__status="Synced")


async def test_newcomer_when_the_former_tenants_cluster_secret_is_still_there_then_it_may_not_use_it(
    stack: HostedStack, tenant: Tenant, api: Api, cluster: Cluster, engine_secrets: Mirror, projects: Mirror
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    await api.until_connection("Succeeded")
    before = await tenant.application_of(await tenant.create("before", destination=REMOTE))
    name, home = before["spec"]["destination"]["name"], before["metadata"]["namespace"]
    await tenant.kube.patch_object(SECRET, home, name, {"metadata": {"finalizers": [HOLD]}}, field_manager="e2e")
    contents = ((GITOPS_DEPLOYMENT, "before"), (MANAGED_ENVIRONMENT, "prod"), (SECRET, "kubeconfig"))
    async with made_again(stack, tenant.kube, tenant.namespace, *contents):
        created = await tenant.create("after")
        await tenant.create("borrowed", destination=REMOTE)
    after = await tenant.application_of(created)
    held = find(engine_secrets.objects, name)
    assert held is not None
    assert decoded(held)["project"] == before["spec"]["project"] != after["spec"]["project"]
    await tenant.until_condition("ErrorOccurred", "True", "borrowed")
    project = after["spec"]["project"]
    await projects.until("the newcomer's project", lambda objects: find(objects, project) is not None)
    allowed = find(projects.objects, project)
    assert allowed is not None
    assert {each["name"] for each in allowed["spec"]["destinations"]} == {"in-cluster"}
    await engine_secrets.until("the former's is removed", lambda objects: find(objects, name) is None)
