"""An Argo CD instance that is replaced by an empty one: its tenants are deployed again, and nothing is taken down."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest

from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.hosted import HostedStack
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, ApiResource, KubeClient, Manifest, NotFound
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import NAME, Source, Sources, config_map
from tests.argocd.test_outages import CONTROLLERS, REPO_SERVERS, without
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import USER, Tenant, create_namespace

CACHES = ("argocd-redis-1", "argocd-redis-2")
AGENTS = ("agent-1", "agent-2")
OURS = "app.kubernetes.io/managed-by=gitops-service"


@dataclass(frozen=True)
class Place:
    """Where one deployment of the tenant has ended."""

    cluster: Deployed
    namespace: str

    def uid(self) -> str:
        """Of what is deployed there: another one after it was taken down."""
        return str(self.cluster.config_maps.objects[self.namespace, NAME]["metadata"]["uid"])


@dataclass(frozen=True)
class TwoDeployments:
    """All that a tenant has: a repository of their own that needs a login, deployed to two clusters."""

    repository: Source
    places: dict[str, Place]
    """By the name of the deployment."""
    created: dict[str, Manifest]


@pytest.fixture
async def repository(api: Api, source: Sources, site: GitSite) -> Source:
    """A repository that needs a login, which the tenant has."""
    private = source(config_map("before"), visibility=PRIVATE)
    await api.secret("login", "repository-credential", username=USERNAME, password=site.password)
    await api.credential(repository=private.https)
    return private


@pytest.fixture
async def there(api: Api, cluster: Cluster, far: Deployed) -> Place:
    """A namespace of the environment that the tenant has."""
    place = Place(far, f"there-{uuid.uuid4().hex[:8]}")
    await create_namespace(far.kube, place.namespace)
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    return place


@pytest.fixture
async def two_deployments(tenant: Tenant, repository: Source, deployed: Deployed, there: Place) -> TwoDeployments:
    """It is deployed, and works."""
    destination = {"environment": "prod", "namespace": there.namespace}
    created = {
        "here": await tenant.create("here", source=repository.spec()),
        "there": await tenant.create("there", source=repository.spec(), destination=destination),
    }
    for name in created:
        await tenant.until_status("deployed", name, **HEALTHY)
    return TwoDeployments(repository, {"here": Place(deployed, tenant.namespace), "there": there}, created)


async def test_instance_when_it_is_replaced_then_its_tenants_are_deployed_again_and_nothing_is_taken_down(
    stack: HostedStack, tenant: Tenant, two_deployments: TwoDeployments, kube: KubeClient
) -> None:
    deployed = {name: place.uid() for name, place in two_deployments.places.items()}
    former = {name: await tenant.application_of(created) for name, created in two_deployments.created.items()}
    async with without(stack, *CONTROLLERS, *REPO_SERVERS, *CACHES, *AGENTS):
        for resource in (APPLICATION, SECRET, APP_PROJECT):
            await lose(kube, resource, former["here"]["metadata"]["namespace"])
    two_deployments.repository.commit(config_map("after"))
    for name, place in two_deployments.places.items():
        await place.cluster.until(place.namespace, "after")
        await tenant.until_status("deployed", name, **HEALTHY)
        assert place.uid() == deployed[name]
        present = await tenant.application_of(two_deployments.created[name])
        assert present["metadata"]["uid"] != former[name]["metadata"]["uid"]


async def lose(kube: KubeClient, resource: ApiResource, namespace: str) -> None:
    """All that we had in the instance, as if it had never been."""
    for name in await names(kube, resource, namespace):
        await kube.patch_object(resource, namespace, name, {"metadata": {"finalizers": None}}, field_manager=USER)
        try:
            await kube.delete_object(resource, namespace, name)
        except NotFound:
            continue  # it was being deleted, and waited for its finalizers only
    assert await names(kube, resource, namespace) == []


async def names(kube: KubeClient, resource: ApiResource, namespace: str) -> list[str]:
    """Our objects in an instance."""
    return [
        item["metadata"]["name"]
        async for page in kube.list_pages(resource, namespace, selector=OURS)
        for item in page.items
    ]
