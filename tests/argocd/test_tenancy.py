"""What one tenant can do to another with the real thing in between: nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import APPLICATION, KubeClient, Manifest
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN
from tests.argocd.deployed import HEALTHY, Deployed, until_sync_says
from tests.argocd.sources import Source, Sources, config_map
from tests.argocd.told import told
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.operators import sole_instance
from tests.e2e.tenant import USER, Tenant, application_name, condition, create_namespace, find, fresh_tenant
from tests.stack.laboratory import IN_CLUSTER, Laboratory, status

LOGGED_IN_SECONDS = 300
"""A login waits for up to a minute until Argo CD has ended what it had begun for other tenants."""
REFRESH = "argocd.argoproj.io/refresh"
"""An annotation that asks Argo CD to look at an Application; it takes it away when it does."""


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
    stack: HostedStack, kube: KubeClient, deployments: Mirror, applications: Mirror, source: Sources, own: Manifest
) -> AsyncIterator[Tenant]:
    """Another tenant on the same Argo CD: only there could they meet."""
    instance = own["metadata"]["namespace"]
    async with fresh_tenant(kube, deployments, applications) as other:
        with sole_instance(stack, instance):
            application = await other.application_of(
                await other.create("own", source=source(config_map("own", "own")).spec())
            )
        assert application["metadata"]["namespace"] == instance
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
    tenant: Tenant, own: Manifest, source: Sources, deployed: Deployed
) -> None:
    engine = own["metadata"]["namespace"]
    await tenant.create(source=source(config_map("smuggled", namespace=engine)).spec())
    await until_sync_says(tenant, f"namespace {engine} is not permitted in project")
    assert deployed.value(engine) is None


async def test_manifest_when_it_is_argocds_own_kind_then_argocd_leaves_it_out_and_says_so(
    tenant: Tenant, own: Manifest, source: Sources, applications: Mirror, projects: Mirror
) -> None:
    engine = own["metadata"]["namespace"]
    project = {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject"}
    application = project | {"kind": "Application"}
    meta = {"name": f"smuggled-{tenant.namespace}", "namespace": engine}
    spec = {"destinations": [{"server": "*", "namespace": "*"}], "sourceRepos": ["*"]}
    smuggled = project | {"metadata": meta, "spec": spec}, application | {"metadata": meta, "spec": own["spec"]}
    await tenant.create(source=source(*smuggled).spec())
    warning = await tenant.until_condition("ExcludedResourceWarning", "True")
    for kind in ("AppProject", "Application"):
        assert f"argoproj.io/{kind} {meta['name']} is excluded in the settings" in warning["message"]
    await tenant.until_status("there is nothing else to deploy", sync__status="Synced")
    assert find(applications.objects, meta["name"]) is None
    assert find(projects.objects, meta["name"]) is None


async def test_deployment_when_it_names_another_tenants_environment_then_there_is_no_such_environment(
    tenant: Tenant, source: Sources, victim: Victim, far: Deployed
) -> None:
    """The planner refuses it: names of environments are a tenant's own.

    That Argo CD would, too, is the matter of the Applications below, which nobody of ours has looked at.
    """
    await tenant.create(source=source().spec(), destination={"environment": "prod", "namespace": victim.namespace})
    error = await tenant.until_condition("ErrorOccurred", "True")
    assert error["message"].startswith("Unable to reconcile the ManagedEnvironment.")
    assert far.value(victim.namespace) == "theirs"


async def test_deployment_when_it_names_another_tenants_private_repository_then_it_is_not_even_made(
    tenant: Tenant, victim: Victim, applications: Mirror, deployed: Deployed
) -> None:
    created = await tenant.create(source=victim.repository.spec())
    error = await tenant.until_condition("ComparisonError", "True")
    assert error["message"] == REPOSITORY_NEEDS_LOGIN.text()
    assert find(applications.objects, application_name(created)) is None
    assert deployed.value(tenant.namespace) is None


@dataclass(frozen=True)
class Intruder:
    """A tenant whose Applications named a private repository before Argo CD had it for anybody."""

    tenant: Tenant
    applications: tuple[Manifest, ...]
    """At its branch, and at its newest commit."""
    commit: str

    async def look(self) -> None:
        """Have Argo CD look at all of them, with and without what it remembers; it may never show anything."""
        for level in ("normal", "hard", "normal"):
            for application in self.applications:
                shown = await self._refresh(application, level)
                assert "is not permitted in project" in spec_error(shown)
                assert status(shown).get("resources") is None
                assert status(shown).get("operationState") is None

    async def _refresh(self, application: Manifest, level: str) -> Manifest:
        name, engine = application["metadata"]["name"], application["metadata"]["namespace"]
        patch = {"metadata": {"annotations": {REFRESH: level}}}
        asked = await self.tenant.kube.patch_object(APPLICATION, engine, name, patch, field_manager=USER)

        def is_done(item: Manifest | None) -> bool:
            meta = (item or {}).get("metadata", {"resourceVersion": "0"})
            is_newer = int(meta["resourceVersion"]) > int(asked["metadata"]["resourceVersion"])
            return is_newer and REFRESH not in meta.get("annotations", {})

        await self.tenant.applications.until(
            f"Argo CD has looked at {name}", lambda objects: is_done(find(objects, name))
        )
        return find(self.tenant.applications.objects, name) or {}


@pytest.fixture
def private(source: Sources) -> Source:
    return source(config_map("theirs"), visibility=PRIVATE)


@pytest.fixture
async def intruder(tenant: Tenant, private: Source) -> Intruder:
    """Argo CD has told it that it cannot read the repository."""
    commit = private.commit(config_map("newest"))
    revisions = {"head": {}, "commit": {"targetRevision": commit}}
    made = [await tenant.create(name, source=private.spec(**revision)) for name, revision in revisions.items()]
    for name in revisions:
        await tenant.until_condition("ComparisonError", "True", name)
    return Intruder(tenant, tuple([await tenant.application_of(created) for created in made]), commit)


async def log_in(user: Api, private: Source, site: GitSite, way: str = "https") -> None:
    key = {"sshPrivateKey": site.client_key.read_text()}
    data = key if way == "ssh" else {"username": USERNAME, "password": site.password}
    await user.secret("login", "repository-credential", **data)
    await user.credential(repository=getattr(private, way))


@dataclass(frozen=True)
class Owner:
    """A tenant with a login for a private repository."""

    tenant: Tenant
    api: Api
    private: Source
    engine_secrets: Mirror

    async def withdraw(self) -> None:
        """Take the login away; Argo CD keeps what it has fetched with it."""
        await self.api.delete(REPOSITORY_CREDENTIAL, "login")
        await self.engine_secrets.until(
            "Argo CD has the login no longer",
            lambda objects: not any(decoded(item).get("url") == self.private.https for item in objects.values()),
        )


@pytest.fixture
def owner(other_tenant: Tenant, other_api: Api, private: Source, engine_secrets: Mirror) -> Owner:
    return Owner(other_tenant, other_api, private, engine_secrets)


async def test_private_repository_when_argo_cd_has_it_for_another_tenant_then_nobody_without_a_login_is_given_it(
    intruder: Intruder, api: Api, owner: Owner, private: Source, site: GitSite, deployed: Deployed
) -> None:
    mine, theirs = intruder.tenant.namespace, owner.tenant.namespace
    await owner.tenant.create("here", source=private.spec())
    await log_in(owner.api, private, site)
    await deployed.until(theirs, "newest", timeout_seconds=LOGGED_IN_SECONDS)
    for name in ("head", "commit"):
        error = await intruder.tenant.until_condition("ComparisonError", "True", name)
        assert error["message"] == REPOSITORY_NEEDS_LOGIN.text()
    await intruder.look()
    await api.sync_run("run", "commit", revisionID=intruder.commit)
    await intruder.look()
    await owner.withdraw()
    await intruder.look()
    assert deployed.value(mine) is None
    await log_in(api, private, site)
    await deployed.until(mine, "newest", timeout_seconds=LOGGED_IN_SECONDS)
    await intruder.tenant.until_condition("ComparisonError", "False", "head")


@pytest.mark.parametrize("way", ["https", "ssh"])
async def test_private_repositories_when_a_tenant_names_them_then_it_is_told_the_same_whether_others_have_a_login(
    tenant: Tenant,
    api: Api,
    owner: Owner,
    private: Source,
    *,
    source: Sources,
    site: GitSite,
    deployed: Deployed,
    way: str,
) -> None:
    """Everything that the API server ever shows of their deployments and runs is equal, but for names and times."""
    pair = {"anothers": private, "nobodys": source(config_map("nobody's"), visibility=PRIVATE)}
    await owner.tenant.create("here", source=private.spec(repoURL=getattr(private, way)))
    await log_in(owner.api, private, site, way)
    await deployed.until(owner.tenant.namespace, "theirs", timeout_seconds=LOGGED_IN_SECONDS)
    async with (
        told(tenant.kube, GITOPS_DEPLOYMENT, tenant.namespace) as statuses,
        told(tenant.kube, SYNC_RUN, tenant.namespace) as runs,
    ):
        for name, each in pair.items():
            await tenant.create(name, type="manual", source=each.spec(repoURL=getattr(each, way)))
            error = await tenant.until_condition("ComparisonError", "True", name)
            assert error["message"] == REPOSITORY_NEEDS_LOGIN.text()
            await api.sync_run(f"run-{name}", name)
            await api.until_phase(f"run-{name}", "Error")
            await tenant.patch(name, {"spec": {"source": {"targetRevision": each.repository.head()}}})
            await api.sync_run(f"commit-{name}", name)
            await api.until_phase(f"commit-{name}", "Error")
    for kind, prefix in ((statuses, ""), (runs, "run-"), (runs, "commit-")):
        anothers, nobodys = (
            kind.without_names(f"{prefix}{name}", dict.fromkeys((each.https, each.ssh, name), "<name>"))
            for name, each in pair.items()
        )
        assert anothers == nobodys != []


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
        Wish(NOT_THERE, cluster=True),
        Wish(NOT_THERE, namespace=True, cluster=True),
        Wish("is not permitted in project", repository=True),
    ],
    ids=["namespace", "cluster", "namespace of the cluster", "repository"],
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
    await argocd.kube.patch_object(APPLICATION, engine, name, {"metadata": {"finalizers": None}}, field_manager=USER)
    await argocd.delete(name, engine)


def spec_error(application: Manifest) -> str:
    """Why Argo CD does not even look at it; empty if it does."""
    return str(condition(status(application), "InvalidSpecError").get("message", ""))
