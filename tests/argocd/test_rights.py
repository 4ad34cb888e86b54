"""What Argo CD may do in its own cluster with what a tenant's repository holds: the API server has the last word."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import mirrored
from devstack.stack.argocd_instance import CONTROLLER_ACCOUNT
from devstack.stack.identities import ACCOUNTS_NAMESPACE
from services.agent.instances.controller_rights import REFUSED, excessive_rights
from services.common.kubernetes import (
    APP_PROJECT,
    APPLICATION,
    NAMESPACE,
    SECRET,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
    Rejected,
    connect,
)
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION
from tests.argocd.deployed import Deployed, until_sync_says
from tests.argocd.sources import Sources, config_map
from tests.e2e.tenant import USER, Tenant

RBAC, NETWORKING, OPERATORS = "rbac.authorization.k8s.io", "networking.k8s.io", "operators.coreos.com"
ENGINE, OTHER_ENGINE = ENGINE_NAMESPACES[:2]

ROLE_BINDING = ApiResource(RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE_BINDING = ApiResource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings")
CLUSTER_ROLE = ApiResource(RBAC, "v1", "ClusterRole", "clusterroles")
NETWORK_POLICY = ApiResource(NETWORKING, "v1", "NetworkPolicy", "networkpolicies")
RESOURCE_QUOTA = ApiResource("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = ApiResource("", "v1", "LimitRange", "limitranges")
CATALOG_SOURCE = ApiResource(OPERATORS, "v1alpha1", "CatalogSource", "catalogsources")
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
POD = ApiResource("", "v1", "Pod", "pods")
EVENT = ApiResource("", "v1", "Event", "events")

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


POLICY = "ValidatingAdmissionPolicy 'gitops-service-tenant'"
PLATFORM = {"managed-gitops.redhat.com/platform": "true"}
KEYS = {"name": "keys", "secret": {"secretName": "sealing-keys-private"}}
CONTAINER = {"name": "thief", "image": "nobody-runs-it", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}
THIEF = made(POD, "thief", spec={"containers": [CONTAINER], "volumes": [KEYS]})
"""It would write our private keys into its log."""


@pytest.fixture
async def namespaces(kube: KubeClient) -> AsyncIterator[dict[str, str]]:
    """By what they are; those that are not always there are made."""
    suffix = uuid.uuid4().hex[:8]
    labels = {f"openshift-{suffix}": {}, f"kafka-{suffix}": PLATFORM, f"team-{suffix}": {}}
    for name, given in labels.items():
        manifest = made(NAMESPACE, name)
        manifest["metadata"]["labels"] = given
        await kube.create_object(NAMESPACE, manifest, field_manager=USER)
    openshift, labelled, tenants = labels
    yield {
        "ours": ACCOUNTS_NAMESPACE, "the cluster's": "kube-system", "OpenShift's": openshift, "labelled": labelled,
        "another engine's": OTHER_ENGINE, "its own": ENGINE, "a tenant's": tenants,
    }  # fmt: skip
    for name in labels:
        await kube.delete_object(NAMESPACE, None, name)


async def answer(call: Awaitable[object]) -> str:
    """How the API server refuses; empty if it does not."""
    try:
        await call
    except Rejected as error:
        return str(error)
    return ""


@pytest.mark.parametrize("whose", ["ours", "the cluster's", "OpenShift's", "labelled", "another engine's", "its own"])
async def test_controller_when_it_would_write_where_the_platform_is_then_the_policy_refuses_by_name(
    kube: KubeClient, controller: KubeClient, namespaces: dict[str, str], whose: str
) -> None:
    """Whatever AppProjects say: whoever writes compiled rows writes these, too."""
    namespace, name = namespaces[whose], f"here-{uuid.uuid4().hex[:8]}"
    thief = THIEF | {"metadata": {"name": name, "namespace": namespace}}
    secret = made(SECRET, name, stringData={"key": "value"})
    secret["metadata"]["namespace"] = namespace
    there = secret | {"metadata": {"name": f"{name}-there", "namespace": namespace}}
    await kube.create_object(SECRET, there, field_manager=USER)
    changed = {"stringData": {"key": "changed"}}
    for call in (
        controller.create_object(POD, thief, field_manager=USER),
        controller.create_object(SECRET, secret, field_manager=USER),
        controller.patch_object(SECRET, namespace, f"{name}-there", changed, field_manager=USER),
        controller.delete_object(SECRET, namespace, f"{name}-there"),
    ):
        said = await answer(call)
        assert POLICY in said
        assert "who deploys for tenants writes nothing to it" in said
    await kube.delete_object(SECRET, namespace, f"{name}-there")  # others it does not concern


async def test_controller_when_it_writes_to_a_tenant_or_tells_an_event_then_the_policy_lets_it(
    controller: KubeClient, namespaces: dict[str, str]
) -> None:
    secret = made(SECRET, "ordinary", stringData={"key": "value"})
    secret["metadata"]["namespace"] = namespaces["a tenant's"]
    assert await answer(controller.create_object(SECRET, secret, field_manager=USER)) == ""
    event = made(EVENT, f"event-{uuid.uuid4().hex[:8]}", involvedObject={"kind": "Application", "namespace": ENGINE})
    event["metadata"]["namespace"] = ENGINE
    assert await answer(controller.create_object(EVENT, event, field_manager=USER)) == ""


async def test_application_when_somebody_writes_it_behind_the_agents_then_the_api_server_refuses_its_pod_with_the_keys(
    kube: KubeClient, source: Sources
) -> None:
    name = f"forged-{uuid.uuid4().hex[:8]}"
    destinations = [{"server": "*", "namespace": "*"}]
    project = made(APP_PROJECT, name, spec={"sourceRepos": ["*"], "destinations": destinations})
    spec = source(THIEF).spec() | {"targetRevision": "HEAD"}
    to_ours = {"name": "in-cluster", "namespace": ACCOUNTS_NAMESPACE}
    application = made(APPLICATION, name, spec={
        "project": name, "source": spec, "destination": to_ours, "syncPolicy": {"automated": {}},
    })  # fmt: skip
    for resource, manifest in ((APP_PROJECT, project), (APPLICATION, application)):
        manifest["metadata"]["namespace"] = ENGINE
        await kube.create_object(resource, manifest, field_manager=USER)

    def said(objects: Mapping[tuple[str, str], Manifest]) -> list[str]:
        operation = objects.get((ENGINE, name), {}).get("status", {}).get("operationState", {})
        return [item.get("message", "") for item in operation.get("syncResult", {}).get("resources") or []]

    async with mirrored(kube, APPLICATION, ENGINE) as applications:
        await applications.until("its pod is refused", lambda objects: any(POLICY in each for each in said(objects)))
    for resource in (APPLICATION, APP_PROJECT):
        await kube.delete_object(resource, ENGINE, name)
    with pytest.raises(NotFound):
        await kube.get_object(POD, ACCOUNTS_NAMESPACE, THIEF["metadata"]["name"])


async def test_agent_when_an_account_may_do_more_than_tenants_may_then_it_sees_that(
    stack: HostedStack, kube: KubeClient
) -> None:
    """Of Argo CD's own controller it sees nothing."""
    account = f"account-{uuid.uuid4().hex[:8]}"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": ENGINE}
    binding = TO_CLUSTER_ADMIN | {"subjects": [subject]}
    await kube.create_object(CLUSTER_ROLE_BINDING, made(CLUSTER_ROLE_BINDING, account, **binding), field_manager=USER)
    async with await connect(Path(stack.environment_of("agent")["KUBECONFIG"])) as agent:
        everything = tuple(resource for _, resource, _ in REFUSED)
        async with asyncio.timeout(30):
            while await excessive_rights(agent, ENGINE, account) != everything:  # noqa: ASYNC110 - nothing is to be watched
                await asyncio.sleep(0.05)
        assert await excessive_rights(agent, ENGINE, CONTROLLER_ACCOUNT) == ()
    await kube.delete_object(CLUSTER_ROLE_BINDING, None, account)
