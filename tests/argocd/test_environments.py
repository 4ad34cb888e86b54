"""Deployments to a cluster that a tenant brought: a second, real API server."""

from __future__ import annotations

import uuid

import pytest

from devstack.harness.mirror import mirrored
from services.common.kubernetes import NAMESPACE, SECRET, ApiResource, Manifest
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.argocd.deployed import HEALTHY, Deployed, until_sync_says
from tests.argocd.sources import Sources, config_map, namespace
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import USER, Tenant, create_namespace

RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
ROLE = ApiResource(RBAC, "v1", "Role", "roles")
ROLE_BINDING = ApiResource(RBAC, "v1", "RoleBinding", "rolebindings")
ACCOUNT = "deployer"


@pytest.fixture
async def there(far: Deployed) -> str:
    """A namespace in the other cluster."""
    name = f"there-{uuid.uuid4().hex[:8]}"
    await create_namespace(far.kube, name)
    return name


@pytest.fixture(params=["whole cluster", "one namespace"])
async def with_account(request: pytest.FixtureRequest, api: Api, cluster: Cluster, there: str) -> Manifest:
    """An environment for which an account is made in the other cluster."""
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    narrowed = {"namespaces": [there]} if request.param == "one namespace" else {}
    created = await api.environment(apiURL=cluster.url, createNewServiceAccount=True, **narrowed)
    await api.until_connection("Succeeded")
    return created


async def test_environment_when_it_makes_its_account_then_deployments_go_there_until_both_are_deleted(
    tenant: Tenant, api: Api, source: Sources, far: Deployed, there: str, with_account: Manifest
) -> None:
    account = ("kube-system", f"argocd-manager-{with_account['metadata']['uid']}")
    async with mirrored(far.kube, SERVICE_ACCOUNT, account[0]) as accounts:
        assert account in accounts.objects
        await tenant.create(source=source().spec(), destination={"environment": "prod", "namespace": there})
        status = await tenant.until_status("deployed", **HEALTHY)
        assert far.value(there) == "first"
        assert status["reconciledState"]["destination"] == {"name": "prod", "namespace": there}
        await tenant.delete()
        await far.until(there, None)
        await api.delete(MANAGED_ENVIRONMENT, "prod")
        await accounts.until("the account is gone", lambda objects: account not in objects)


async def test_environment_when_its_account_may_use_one_namespace_only_then_that_is_enough(
    tenant: Tenant, api: Api, source: Sources, cluster: Cluster, far: Deployed, there: str
) -> None:
    token = await limited_account(far, there)
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig(token))
    await api.environment(apiURL=cluster.url, namespaces=[there])
    await api.until_connection("Succeeded")
    await tenant.create(source=source().spec(), destination={"environment": "prod", "namespace": there})
    await tenant.until_status("deployed", **HEALTHY)
    assert far.value(there) == "first"


async def test_environment_when_it_lists_namespaces_then_deployments_to_others_are_refused(
    tenant: Tenant, api: Api, source: Sources, cluster: Cluster, far: Deployed, there: str
) -> None:
    elsewhere = f"{there}-2"
    await create_namespace(far.kube, elsewhere)
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url, namespaces=[there])
    await api.until_connection("Succeeded")
    await tenant.create(source=source().spec(), destination={"environment": "prod", "namespace": elsewhere})
    assert elsewhere in (await tenant.until_condition("ErrorOccurred", "True"))["message"]
    await tenant.create(
        "web-2",
        source=source(config_map("first", namespace=elsewhere)).spec(),
        destination={"environment": "prod", "namespace": there},
    )
    error = await tenant.until_condition("ComparisonError", "True", "web-2")
    assert f'namespace "{elsewhere}" for ConfigMap "settings" is not managed' in error["message"]
    assert far.value(elsewhere) is None


async def test_deployment_when_its_namespace_is_to_be_created_then_it_is(
    tenant: Tenant, api: Api, source: Sources, cluster: Cluster, far: Deployed
) -> None:
    made = f"made-{uuid.uuid4().hex[:8]}"
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url, clusterResources=True)
    await tenant.create(
        source=source().spec(),
        destination={"environment": "prod", "namespace": made},
        syncPolicy={"syncOptions": ["CreateNamespace=true"]},
    )
    await tenant.until_status("deployed", **HEALTHY)
    assert far.value(made) == "first"


async def test_resource_without_namespace_when_the_environment_allows_it_then_only_there_it_is_deployed(
    tenant: Tenant, api: Api, source: Sources, cluster: Cluster, far: Deployed, there: str
) -> None:
    made = f"made-{uuid.uuid4().hex[:8]}"
    repository = source(config_map("first"), namespace(made))
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment("prod", apiURL=cluster.url)
    await api.environment("all", apiURL=cluster.url, clusterResources=True)
    for name, destination in (("local", {}), ("far", {"environment": "prod", "namespace": there})):
        await tenant.create(name, source=repository.spec(), destination=destination)
        await until_sync_says(tenant, "resource :Namespace is not permitted in project", name)
    await tenant.create("web", source=repository.spec(), destination={"environment": "all", "namespace": there})
    await tenant.until_status("deployed", **HEALTHY)
    assert await far.kube.get_object(NAMESPACE, None, made)


async def limited_account(far: Deployed, name: str) -> str:
    """Token of an account that may write config maps in one namespace, and nothing else."""
    meta = {"name": ACCOUNT, "namespace": name}
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]
    role_ref = {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT}
    subjects = [{"kind": "ServiceAccount", **meta}]
    token = meta | {"annotations": {"kubernetes.io/service-account.name": ACCOUNT}}
    for resource, metadata, content in (
        (SERVICE_ACCOUNT, meta, {}),
        (ROLE, meta, {"rules": rules}),
        (ROLE_BINDING, meta, {"roleRef": role_ref, "subjects": subjects}),
        (SECRET, token, {"type": "kubernetes.io/service-account-token"}),
    ):
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata} | content
        await far.kube.create_object(resource, manifest, field_manager=USER)
    async with mirrored(far.kube, SECRET, name) as secrets:
        await secrets.until("the token is there", lambda objects: "token" in objects[name, ACCOUNT].get("data", {}))
        return decoded(secrets.objects[name, ACCOUNT])["token"]
