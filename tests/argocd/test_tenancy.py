"""What one tenant can do to another with the real thing in between: nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from services.cli.dev.git.site import PRIVATE, USERNAME, GitSite
from services.cli.mirror import Mirror
from services.common.kube import APPLICATION, KubeClient, Manifest
from tests.argocd.deployed import HEALTHY, Deployed, until_sync_says
from tests.argocd.sources import Source, Sources, config_map
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import USER, Tenant, condition, create_namespace, find, fresh_tenant
from tests.stack.laboratory import IN_CLUSTER, Laboratory, status


@dataclass(frozen=True)
class Victim:
    """A tenant with something to take."""

    namespace: str
    """In both clusters."""
    server: str
    """By which Argo CD knows the cluster that they brought."""
    repository: Source
    """That only they can read."""


@pytest.fixture
async def own(tenant: Tenant, source: Sources) -> Manifest:
    """An ordinary Application of the tenant, in the tenant's project."""
    return await tenant.application_of(await tenant.create("own", source=source(config_map("own", "own")).spec()))


@pytest.fixture
async def other_tenant(
    kube: KubeClient, deployments: Mirror, applications: Mirror, source: Sources, own: Manifest
) -> AsyncIterator[Tenant]:
    """Another tenant on the same Argo CD: only there could they meet."""
    async with AsyncExitStack() as tenants:
        engine = ""
        while engine != own["metadata"]["namespace"]:
            other = await tenants.enter_async_context(fresh_tenant(kube, deployments, applications))
            application = await other.application_of(
                await other.create("own", source=source(config_map("own", "own")).spec())
            )
            engine = application["metadata"]["namespace"]
        yield other


@pytest.fixture
async def victim(
    other_tenant: Tenant, other_api: Api, source: Sources, site: GitSite, cluster: Cluster, far: Deployed
) -> Victim:
    """The other tenant, with an environment and a credential, both in use."""
    namespace, repository = other_tenant.namespace, source(config_map("theirs"), visibility=PRIVATE)
    await create_namespace(far.kube, namespace)
    await other_api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await other_api.environment(apiURL=cluster.url)
    await other_api.secret("login", "repository-credential", username=USERNAME, password=site.password)
    await other_api.credential(repository=repository.https)
    await other_tenant.create("here", source=repository.spec())
    destination = {"environment": "prod", "namespace": namespace}
    created = await other_tenant.create("far", source=repository.spec(), destination=destination)
    for name in ("here", "far"):
        await other_tenant.until_status("deployed", name, **HEALTHY)
    known_as = (await other_tenant.application_of(created))["spec"]["destination"]["name"]
    environment = known_as.removeprefix("managed-env-")
    return Victim(namespace, f"{cluster.url}?managedEnvironment={environment}", repository)


async def test_manifest_when_it_names_another_tenants_namespace_then_argocd_refuses_it(
    tenant: Tenant, source: Sources, victim: Victim, deployed: Deployed
) -> None:
    await tenant.create(source=source(config_map("mine", namespace=victim.namespace)).spec())
    await until_sync_says(tenant, f"namespace {victim.namespace} is not permitted in project")
    assert deployed.value(victim.namespace) == "theirs"


async def test_manifest_when_it_names_argocds_own_namespace_then_argocd_refuses_it(
    tenant: Tenant, own: Manifest, source: Sources, applications: Mirror, projects: Mirror
) -> None:
    engine = own["metadata"]["namespace"]
    project = {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject"}
    application = project | {"kind": "Application"}
    meta = {"name": f"smuggled-{tenant.namespace}", "namespace": engine}
    spec = {"destinations": [{"server": "*", "namespace": "*"}], "sourceRepos": ["*"]}
    smuggled = (
        config_map("smuggled", namespace=engine),
        project | {"metadata": meta, "spec": spec},
        application | {"metadata": meta, "spec": own["spec"]},
    )
    await tenant.create(source=source(*smuggled).spec())
    await until_sync_says(tenant, f"namespace {engine} is not permitted in project")
    assert find(applications.objects, meta["name"]) is None
    assert find(projects.objects, meta["name"]) is None


async def test_deployment_when_it_names_another_tenants_environment_then_there_is_no_such_environment(
    tenant: Tenant, source: Sources, victim: Victim, far: Deployed
) -> None:
    await tenant.create(source=source().spec(), destination={"environment": "prod", "namespace": victim.namespace})
    error = await tenant.until_condition("ErrorOccurred", "True")
    assert error["message"].startswith("Unable to reconcile the ManagedEnvironment.")
    assert far.value(victim.namespace) == "theirs"


async def test_deployment_when_it_names_another_tenants_private_repository_then_it_cannot_read_it(
    tenant: Tenant, victim: Victim, deployed: Deployed
) -> None:
    await tenant.create(source=victim.repository.spec())
    error = await tenant.until_condition("ComparisonError", "True")
    assert "authentication required" in error["message"]
    assert deployed.value(tenant.namespace) is None


@dataclass(frozen=True)
class Wish:
    """What an Application in the tenant's project asks for, though it is the victim's."""

    refusal: str
    repository: bool = False
    namespace: bool = False
    cluster: bool = False


NOT_THERE = "do not match any of the allowed destinations in project"


@pytest.fixture
def argocd(kube: KubeClient, far: Deployed, site: GitSite, applications: Mirror) -> Laboratory:
    """For somebody who can write into Argo CD's namespace, but not change projects."""
    return Laboratory(kube, far.kube, site, applications)


@pytest.mark.parametrize(
    "wish",
    [
        Wish(NOT_THERE, namespace=True),
        Wish(NOT_THERE, namespace=True, cluster=True),
        Wish("is not permitted in project", repository=True),
    ],
    ids=["namespace", "cluster", "repository"],
)
async def test_project_when_an_application_in_it_wants_what_is_another_tenants_then_argocd_refuses(
    argocd: Laboratory, own: Manifest, victim: Victim, wish: Wish
) -> None:
    engine, spec = own["metadata"]["namespace"], own["spec"]
    name = await argocd.deploy(
        victim.repository.https if wish.repository else spec["source"]["repoURL"],
        victim.namespace if wish.namespace else spec["destination"]["namespace"],
        engine=engine,
        server=victim.server if wish.cluster else IN_CLUSTER,
        project=spec["project"],
    )
    refused = await argocd.until(name, wish.refusal, lambda item: wish.refusal in spec_error(item), engine)
    assert status(refused).get("resources") is None
    # It deployed nothing, so Argo CD has nothing to remove.
    await argocd.kube.patch(APPLICATION, engine, name, {"metadata": {"finalizers": None}}, field_manager=USER)
    await argocd.delete(name, engine)


def spec_error(application: Manifest) -> str:
    """Why Argo CD does not even look at it; empty if it does."""
    return str(condition(status(application), "InvalidSpecError").get("message", ""))
