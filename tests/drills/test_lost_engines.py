"""The namespace of an Argo CD is lost, or all of its cluster: what was there is desired state, and is made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from devstack.components.services import SIMULATOR
from devstack.components.steps import ENGINE_CRDS, SIMULATOR_RBAC
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import AGENTS, Operator
from services.common.argocd_names import GROUP
from services.common.kubernetes import NAMESPACE, KubeClient, Manifest
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION
from services.common.settings import parse_engine_namespaces
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, application_name, condition, find, fresh_tenant, path
from tests.e2e.test_telemetry import get

REMOTE = {"environment": "prod", "namespace": "web"}
GONE_SECONDS = 60
SINCE, AFTERWARDS = path("since"), path("afterwards")


class Tenancy:
    """What a tenant has in an engine namespace: two deployments, a run that has ended, a cluster's credentials."""

    def __init__(self, tenant: Tenant, api: Api, secrets: Mirror) -> None:
        self.tenant, self._api, self._secrets = tenant, api, secrets
        self.resources = dict[str, Manifest]()

    async def begin(self, cluster: Cluster) -> None:
        """All of it works."""
        await self._api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
        await self._api.environment(apiURL=cluster.url)
        self.resources["changed"] = await self.tenant.create("changed", destination=REMOTE)
        self.resources["manual"] = await self.tenant.create("manual", type="manual")
        await self._api.sync_run("once", deployment="manual")
        self._ran = await self._api.until_phase("once", "Succeeded")
        for name in self.resources:
            await self.tenant.until_status("Synced", name, sync__status="Synced")
        self._before = self._identities()
        self._credentials = self._cluster_secret()

    @property
    def namespace(self) -> str:
        """Of its engine."""
        return self._before["manual"][0]

    async def until_told(self) -> None:
        """Wait until the user is told that nothing is done, and by whom that is mended."""
        for name in self.resources:
            told = await self.tenant.until_condition("ErrorOccurred", "True", name)
            assert told["message"] == ENGINE_NOT_ACCEPTED.text()

    async def require_restored(self) -> None:
        """Everything is there anew, in its place, as it is asked for by now; nothing has run once more."""
        for created in self.resources.values():
            await self.tenant.application_of(created)
        await self.tenant.until_path(self.resources["changed"], "since")
        for name in self.resources:
            await self.tenant.until_no_error(name)
        await self.tenant.until_status("Synced", "changed", sync__status="Synced")
        now = self._identities()
        assert {name: place for name, (place, _) in now.items()} == dict.fromkeys(now, self.namespace)
        assert not {uid for _, uid in now.values()} & {uid for _, uid in self._before.values()}
        assert self._cluster_secret() == self._credentials
        assert await self._api.until_phase("once", "Succeeded") == self._ran
        assert "operationState" not in find_live(self.tenant, self.resources["manual"]).get("status", {})

    def _identities(self) -> dict[str, tuple[str, str]]:
        return {name: identity(self.tenant, created)[:2] for name, created in self.resources.items()}

    def _cluster_secret(self) -> dict[str, str]:
        name = find_live(self.tenant, self.resources["changed"])["spec"]["destination"]["name"]
        found = find(self._secrets.objects, name)
        assert found is not None
        return decoded(found)


def find_live(tenant: Tenant, created: Manifest) -> Manifest:
    found = find(tenant.applications.objects, application_name(created))
    assert found is not None
    return found


@asynccontextmanager
async def neighbour_outside(namespace: str, like: Tenant) -> AsyncIterator[tuple[Tenant, Manifest]]:
    """A tenant on another instance, with a deployment. Which instance a tenant is on is as good as chance."""
    async with AsyncExitStack() as tenants:
        while True:
            fresh = fresh_tenant(like.kube, like.deployments, like.applications)
            tenant = await tenants.enter_async_context(fresh)
            created = await tenant.create()
            await tenant.until_status("Synced", sync__status="Synced")
            if identity(tenant, created)[0] != namespace:
                break
        yield tenant, created


async def lose_namespaces(kube: KubeClient, applications: Mirror, *namespaces: str) -> None:
    """With all that is in them."""
    for namespace in namespaces:
        await kube.delete_object(NAMESPACE, "", namespace)
    await applications.until(
        f"{namespaces} are empty", lambda objects: not {home for home, _ in objects} & {*namespaces}, GONE_SECONDS
    )


async def replace_agents(stack: HostedStack, operator: Operator, namespace: str) -> None:
    """Processes that are replaced at this very moment start, and tell that this instance is not there."""
    await asyncio.to_thread(operator.stop(*AGENTS))
    await asyncio.to_thread(operator.start(*AGENTS))
    for name in AGENTS:
        assert f'gitops_engine_unreachable{{instance="{namespace}"}} 1.0' in get(stack, name, "/metrics").text


def install_argocd(stack: HostedStack, operator: Operator) -> Callable[[], None]:
    """As at first: its namespace, its rights, its programs, which may have ended when all of that was gone."""

    def install() -> None:
        operator.run("gitopsctl dev namespaces")
        operator.run(f"gitopsctl rbac apply --from {SIMULATOR_RBAC}")
        if SIMULATOR in stack.pids():
            stack.kill(SIMULATOR)
        stack.start(SIMULATOR)

    return install


@pytest.fixture
async def tenancy(tenant: Tenant, api: Api, cluster: Cluster, engine_secrets: Mirror) -> Tenancy:
    """What a tenant has before anything is lost."""
    tenancy = Tenancy(tenant, api, engine_secrets)
    await tenancy.begin(cluster)
    return tenancy


async def test_namespace_of_an_argo_cd_when_lost_then_others_are_served_and_its_applications_are_made_again(
    stack: HostedStack,
    operator: Operator,
    tenant: Tenant,
    tenancy: Tenancy,
) -> None:
    async with neighbour_outside(tenancy.namespace, tenant) as (other, elsewhere):
        before = identity(other, elsewhere)
        await lose_namespaces(tenant.kube, tenant.applications, tenancy.namespace)
        await tenant.patch("changed", SINCE)
        await replace_agents(stack, operator, tenancy.namespace)
        await tenancy.until_told()
        assert identity(other, elsewhere) == before
        await other.patch("web", SINCE)
        await other.until_path(elsewhere, "since")
        assert condition(other.status(), "ErrorOccurred").get("status") != "True"

        by_hand = {1: [install_argocd(stack, operator)], 2: []}  # they were, meanwhile
        await asyncio.to_thread(operator.follow_runbook, "lost-engine-namespace.md", by_hand)
        await tenancy.require_restored()
        await other.patch("web", AFTERWARDS)
        await other.until_path(elsewhere, "afterwards")
        assert identity(other, elsewhere)[:2] == before[:2]


@pytest.mark.long
async def test_engine_cluster_when_lost_then_a_new_one_under_the_same_instance_ids_gets_everything(
    stack: HostedStack,
    operator: Operator,
    tenant: Tenant,
    tenancy: Tenancy,
) -> None:
    engines = parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values()
    await lose_namespaces(tenant.kube, tenant.applications, *engines)
    for plural in ("applications", "appprojects"):
        await tenant.kube.delete_object(CUSTOM_RESOURCE_DEFINITION, "", f"{plural}.{GROUP}")
    await tenant.patch("changed", SINCE)

    crds = partial(operator.run, f"gitopsctl crds apply --from {ENGINE_CRDS}")
    by_hand = {1: [operator.stop(*AGENTS)], 2: [crds, install_argocd(stack, operator)], 3: [operator.start(*AGENTS)]}
    await asyncio.to_thread(operator.follow_runbook, "lost-engine-cluster.md", by_hand)
    await tenancy.require_restored()
    await tenant.patch("changed", AFTERWARDS)
    await tenant.until_path(tenancy.resources["changed"], "afterwards")
