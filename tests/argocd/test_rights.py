"""What Argo CD may do in its own cluster with what a tenant's repository holds: the API server has the last word."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import mirrored
from devstack.stack.argocd_instance import CONTROLLER_ACCOUNT
from services.agent.instances.controller_rights import REFUSED, excessive_rights
from services.common.kubernetes import (
    APPLICATION,
    NAMESPACE,
    SECRET,
    ApiResource,
    KubeClient,
    Manifest,
    Rejected,
    connect,
)
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION
from tests.argocd.deployed import Deployed, until_sync_says
from tests.argocd.sources import Sources, config_map
from tests.e2e.tenant import USER, Tenant

RBAC, NETWORKING, OPERATORS = "rbac.authorization.k8s.io", "networking.k8s.io", "operators.coreos.com"
ENGINE = ENGINE_NAMESPACES[0]

ROLE_BINDING = ApiResource(RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE_BINDING = ApiResource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings")
CLUSTER_ROLE = ApiResource(RBAC, "v1", "ClusterRole", "clusterroles")
NETWORK_POLICY = ApiResource(NETWORKING, "v1", "NetworkPolicy", "networkpolicies")
RESOURCE_QUOTA = ApiResource("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = ApiResource("", "v1", "LimitRange", "limitranges")
CATALOG_SOURCE = ApiResource(OPERATORS, "v1alpha1", "CatalogSource", "catalogsources")
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")

TO_CLUSTER_ADMIN = {
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default"}],
}


def made(resource: ApiResource, name: str, **content: Any) -> Manifest:
    """A manifest."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}} | content


def pods(name: str) -> dict[str, Any]:
    """``spec`` of a Deployment."""
    labels = {"app": name}
    container = {"name": name, "image": "nobody-runs-it"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": labels}, "template": template}


def refusal(resource: ApiResource) -> str:
    """As the API server says it."""
    return f'cannot create resource "{resource.plural}" in API group "{resource.group}"'


HOSTILE: dict[ApiResource, dict[str, Any]] = {
    ROLE_BINDING: TO_CLUSTER_ADMIN,
    NETWORK_POLICY: {"spec": {"podSelector": {}, "ingress": [{}]}},
    CATALOG_SOURCE: {"spec": {"image": "example.com/mine"}},
}
"""What an AppProject permits in a tenant's own namespace."""


@pytest.fixture
async def operators(kube: KubeClient) -> AsyncIterator[None]:
    """There is an operator framework in Argo CD's cluster."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": CATALOG_SOURCE.version, "served": True, "storage": True, "schema": schema}
    names = {"kind": CATALOG_SOURCE.kind, "plural": CATALOG_SOURCE.plural}
    spec = {"group": OPERATORS, "scope": "Namespaced", "names": names, "versions": [version]}
    name = f"{CATALOG_SOURCE.plural}.{OPERATORS}"
    await kube.create_object(
        CUSTOM_RESOURCE_DEFINITION, made(CUSTOM_RESOURCE_DEFINITION, name, spec=spec), field_manager=USER
    )
    yield
    await kube.delete_object(CUSTOM_RESOURCE_DEFINITION, None, name)


@pytest.mark.usefixtures("operators")
async def test_repository_when_it_holds_what_gives_rights_or_lifts_limits_then_the_api_server_refuses_it(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    hostile = [made(resource, "mine", **content) for resource, content in HOSTILE.items()]
    await tenant.create(source=source(config_map("first"), *hostile).spec())
    for resource in HOSTILE:
        await until_sync_says(tenant, refusal(resource))
    await deployed.until(tenant.namespace, "first")  # what it may have, it has


async def test_repository_when_it_holds_ordinary_things_then_they_are_deployed_pruned_and_deleted(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    deployment = made(DEPLOYMENT, "web", spec=pods("web"))
    service = made(ApiResource("", "v1", "Service", "services"), "web", spec={"ports": [{"port": 80}]})
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    ingress = made(
        ApiResource(NETWORKING, "v1", "Ingress", "ingresses"), "web", spec={"defaultBackend": backend}
    )  # fmt: skip
    secret = made(SECRET, "web", stringData={"key": "value"})
    job = made(ApiResource("batch", "v1", "Job", "jobs"), "web")
    template = pods("web")["template"]
    job["spec"] = {"template": template | {"spec": template["spec"] | {"restartPolicy": "Never"}}}
    repository = source(config_map("first"), deployment, service, ingress, secret, job)
    await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", sync__status="Synced")
    async with mirrored(deployed.kube, DEPLOYMENT, tenant.namespace) as deployments:
        assert (tenant.namespace, "web") in deployments.objects
        repository.remove(deployment)
        await deployments.until("it is pruned", lambda objects: not objects)
    await tenant.delete()
    await deployed.until(tenant.namespace, None)


@pytest.fixture
async def controller(stack: HostedStack) -> AsyncIterator[KubeClient]:
    """Argo CD's application controller itself, whatever its AppProjects and exclusions may let pass."""
    async with await connect(stack.state.root / "argocd" / "1" / "kubeconfig") as kube:
        yield kube


@pytest.mark.parametrize(
    ("resource", "content", "namespace"),
    [
        (ROLE_BINDING, TO_CLUSTER_ADMIN, "default"),
        (NETWORK_POLICY, {"spec": {"podSelector": {}}}, "default"),
        (RESOURCE_QUOTA, {"spec": {"hard": {"pods": "1k"}}}, "default"),
        (LIMIT_RANGE, {"spec": {"limits": []}}, "default"),
        (CLUSTER_ROLE, {"rules": []}, None),
        (NAMESPACE, {}, None),
        (APPLICATION, {"spec": {"project": "default"}}, ENGINE),
        (APPLICATION, {"spec": {"project": "default"}}, "default"),
    ],
    ids=lambda value: value.kind if isinstance(value, ApiResource) else "",
)
async def test_controller_when_it_would_make_what_no_tenant_may_have_then_the_api_server_refuses(
    controller: KubeClient, resource: ApiResource, content: dict[str, Any], namespace: str | None
) -> None:
    manifest = made(resource, f"mine-{uuid.uuid4().hex[:8]}", **content)
    manifest["metadata"]["namespace"] = namespace
    with pytest.raises(Rejected, match=refusal(resource)) as refused:
        await controller.create_object(resource, manifest, field_manager=USER)
    assert f"system:serviceaccount:{ENGINE}:{CONTROLLER_ACCOUNT}" in str(refused.value)


async def test_agent_when_an_account_may_do_more_than_tenants_may_then_it_sees_that(
    stack: HostedStack, kube: KubeClient
) -> None:
    """Of Argo CD's own controller it sees nothing."""
    account = f"account-{uuid.uuid4().hex[:8]}"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": ENGINE}
    binding = TO_CLUSTER_ADMIN | {"subjects": [subject]}
    await kube.create_object(CLUSTER_ROLE_BINDING, made(CLUSTER_ROLE_BINDING, account, **binding), field_manager=USER)
    async with await connect(Path(stack.environment_of("agent")["KUBECONFIG"])) as agent:
        everything = tuple(resource for _, resource in REFUSED)
        async with asyncio.timeout(30):
            while await excessive_rights(agent, ENGINE, account) != everything:  # noqa: ASYNC110 - nothing is to be watched
                await asyncio.sleep(0.05)
        assert await excessive_rights(agent, ENGINE, CONTROLLER_ACCOUNT) == ()
    await kube.delete_object(CLUSTER_ROLE_BINDING, None, account)
