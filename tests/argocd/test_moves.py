"""A tenant goes from one real Argo CD to another: nothing that was deployed is touched, and no user notices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import CONFIG_MAP, ApiResource, Deleted, KubeClient, Manifest, Seen
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.argocd.deployed import HEALTHY, SETTLED, Deployed
from tests.argocd.planner_clock import later
from tests.argocd.sources import NAME, Sources, config_map, service, workload
from tests.argocd.test_environments import SERVICE_ACCOUNT, there
from tests.argocd.test_health import SLACK_SECONDS, until_health
from tests.argocd.test_outages import CONTROLLERS, without
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.moving import Mover
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import USER, Tenant
from tests.e2e.version_history import VersionHistory, versions_seen

__all__ = ["there"]

WORKLOAD = ApiResource("apps", "v1", "Deployment", "deployments")
SERVICE = ApiResource("", "v1", "Service", "services")
MANUAL = {"type": "manual"}
DEPLOYED_SECONDS = 240
"""Argo CDs that have just begun may need so long for the first one."""
HALF_OF_MOVE_PATIENCE = timedelta(minutes=5)
HELD = "tests.redhat.com/held"
OF_EVERY_NAMESPACE = {"kube-root-ca.crt"}

KindAndName = tuple[str, str]


@dataclass(frozen=True)
class History:
    """What has happened to a namespace's objects since it began."""

    kinds: list[VersionHistory]

    async def changes(self) -> tuple[list[KindAndName], list[KindAndName]]:
        """Each that was made or changed until now, at each change, and each that was deleted; kind by kind."""
        changed: list[KindAndName] = []
        deleted: list[KindAndName] = []
        for kind in self.kinds:
            for version in await kind.until_now():
                name = version.object["metadata"]["name"]
                if not isinstance(version, Seen) and name not in OF_EVERY_NAMESPACE:
                    (deleted if isinstance(version, Deleted) else changed).append((kind.resource.kind, name))
        return changed, deleted


@asynccontextmanager
async def watched(kube: KubeClient, namespace: str) -> AsyncIterator[History]:
    """The history of what is deployed in a namespace; whatever there is already is no part of it."""
    async with AsyncExitStack() as watching:
        kinds = [versions_seen(kube, each, namespace) for each in (CONFIG_MAP, WORKLOAD, SERVICE)]
        yield History([await watching.enter_async_context(each) for each in kinds])


@pytest.fixture
def mover(stack: HostedStack, tenant: Tenant, applications: Mirror) -> Mover:
    """Of the test's tenant."""
    return Mover(stack, tenant, applications)


async def until_rolled_out(tenant: Tenant) -> None:
    """Wait until the first deployment with a workload is Healthy, whose status nobody else writes here."""
    await tenant.until_status("rolling out", timeout_seconds=DEPLOYED_SECONDS, sync__status="Synced")
    rolled_out = {"status": {"observedGeneration": 1}}
    await tenant.kube.patch_object(
        WORKLOAD, tenant.namespace, "app", rolled_out, field_manager="tests", subresource="status"
    )
    await tenant.until_status("deployed", **SETTLED)


async def identities(kube: KubeClient, namespace: str, config: str = NAME) -> dict[str, Any]:
    """Of each object: its uid, generation and version."""
    found: dict[str, Any] = {}
    for resource, name in ((CONFIG_MAP, config), (WORKLOAD, "app"), (SERVICE, "app")):
        meta = (await kube.get_object(resource, namespace, name))["metadata"]
        found[resource.kind] = (meta["uid"], meta.get("generation"), meta["resourceVersion"])
    return found


async def test_tenant_when_moved_then_nothing_that_was_deployed_is_written_and_its_status_does_not_change(
    tenant: Tenant, source: Sources, kube: KubeClient, mover: Mover
) -> None:
    repository = source(config_map("first"), workload("app"), service("app"))
    created = await tenant.create(source=repository.spec())
    await until_rolled_out(tenant)
    before = await identities(kube, tenant.namespace)
    async with watched(kube, tenant.namespace) as history:
        async with seen_by_user(tenant) as seen:
            target = await mover.order(created)
            await mover.until_done()
            assert await seen.changes() == []
        assert mover.places(created) == {target}
        assert (await identities(kube, tenant.namespace), await history.changes()) == (before, ([], []))
        repository.commit(config_map("second"))
        await tenant.until_status("goes on", sync__revision=repository.repository.head(), **HEALTHY)
        repository.remove(service("app"))
        await tenant.until_status("pruned", sync__revision=repository.repository.head(), **HEALTHY)
        assert await history.changes() == ([("ConfigMap", "settings")], [("Service", "app")])


async def test_commit_and_sync_run_when_made_while_a_tenant_is_moved_then_each_has_its_effect_once(
    tenant: Tenant, api: Api, source: Sources, deployed: Deployed, mover: Mover
) -> None:
    automated, manual = source(), source(config_map("first", "released"))
    created = await tenant.create(source=automated.spec())
    await tenant.create("by-hand", **MANUAL, source=manual.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
    await tenant.until_status("compared", "by-hand", DEPLOYED_SECONDS, sync__status="OutOfSync")
    async with watched(deployed.kube, tenant.namespace) as history:
        await mover.order(created)
        await mover.until_past("preparing")
        automated.commit(config_map("second"))
        await api.sync_run("release", "by-hand")
        await mover.until_done()
        await deployed.until(tenant.namespace, "second")
        await api.until_phase("release", "Succeeded")
        await tenant.until_status("deployed", sync__revision=automated.repository.head(), **HEALTHY)
        changed, deleted = await history.changes()
    assert (sorted(changed), deleted) == ([("ConfigMap", "released"), ("ConfigMap", "settings")], [])


async def test_environment_when_its_tenant_is_moved_then_the_target_deploys_there_and_its_account_is_the_same(  # noqa: PLR0917 - fixtures
    tenant: Tenant, api: Api, source: Sources, far: Deployed, there: str, cluster: Cluster, mover: Mover
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    environment = await api.environment(apiURL=cluster.url, createNewServiceAccount=True)
    await api.until_connection("Succeeded")
    repository = source()
    created = await tenant.create(source=repository.spec(), destination={"environment": "prod", "namespace": there})
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    account = ("kube-system", f"argocd-manager-{environment['metadata']['uid']}")
    async with mirrored(far.kube, SERVICE_ACCOUNT, account[0]) as accounts, watched(far.kube, there) as history:
        known = accounts.objects[account]["metadata"]["uid"]
        async with seen_by_user(tenant) as seen:
            await mover.order(created)
            await mover.until_done()
            assert await seen.changes() == []
        assert await history.changes() == ([], [])
        assert accounts.objects[account]["metadata"]["uid"] == known
        repository.commit(config_map("second"))
        await far.until(there, "second")
        await tenant.delete()
        await far.until(there, None)
        await api.delete(MANAGED_ENVIRONMENT, "prod")
        await accounts.until("the account is gone", lambda objects: account not in objects)


async def test_private_repository_when_its_tenant_is_moved_then_the_target_reads_it_and_the_source_has_no_login_left(  # noqa: PLR0917 - fixtures
    tenant: Tenant, api: Api, source: Sources, site: GitSite, deployed: Deployed, mover: Mover, engine_secrets: Mirror
) -> None:
    repository = source(visibility=PRIVATE)
    await api.secret("login", "repository-credential", username=USERNAME, password=site.password)
    await api.credential(repository=repository.https)
    await api.until_credential("RepositoryCredentialUpToDate")
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    async with watched(deployed.kube, tenant.namespace) as history, seen_by_user(tenant) as seen:
        target = await mover.order(created)
        await mover.until_done()
        assert (await seen.changes(), await history.changes()) == ([], ([], []))
    holding = {place for (place, _), held in engine_secrets.objects.items() if _url_of(held) == repository.https}
    assert holding == {target}
    repository.commit(config_map("second"))
    await deployed.until(tenant.namespace, "second")
    await tenant.until_status("goes on", sync__revision=repository.repository.head(), **HEALTHY)


def _url_of(secret: Manifest) -> str:
    return decoded(secret).get("url", "")


async def test_deployment_when_deleted_while_its_tenant_is_moved_then_what_it_deployed_goes(
    tenant: Tenant, source: Sources, deployed: Deployed, mover: Mover
) -> None:
    created = await tenant.create(source=source().spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
    await mover.order(created)
    await mover.until_past("preparing", "pausing")
    await tenant.delete()
    await mover.until_done()
    await deployed.until(tenant.namespace, None)
    await tenant.until_application_gone(created)


async def test_tenant_when_what_it_deleted_does_not_go_then_it_is_moved_nevertheless_and_the_target_ends_the_deletion(
    stack: HostedStack, tenant: Tenant, source: Sources, deployed: Deployed, mover: Mover, kube: KubeClient
) -> None:
    """Whoever always has a deletion under way would stay as long as they like. What is gone is not made anew."""
    repository = source(config_map("first", finalizers=[HELD]), config_map("first", "gone"))
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    await tenant.delete()
    await deployed.config_maps.until(
        "one is gone, and one is being deleted",
        lambda objects: (
            (tenant.namespace, "gone") not in objects
            and "deletionTimestamp" in objects[tenant.namespace, NAME]["metadata"]
        ),
    )
    async with watched(kube, tenant.namespace) as history:
        target = await mover.order(created)
        await mover.until_past("preparing")
        assert await mover.step() == "pausing"
        with later(stack, HALF_OF_MOVE_PATIENCE):
            await mover.until_done()
        for each in ENGINE_NAMESPACES:  # by that clock both agents may have been silent
            await until_health(stack, each, "Healthy", SLACK_SECONDS)
        assert mover.places(created) == {target}
        assert await history.changes() == ([], [])
    released = {"metadata": {"finalizers": None}}
    await kube.patch_object(CONFIG_MAP, tenant.namespace, NAME, released, field_manager=USER)
    await deployed.until(tenant.namespace, None)
    await tenant.until_application_gone(created)


async def test_target_when_its_argocd_dies_in_a_move_then_that_goes_on_when_it_runs_and_nobody_notices(
    stack: HostedStack, tenant: Tenant, source: Sources, deployed: Deployed, mover: Mover, kube: KubeClient
) -> None:
    repository = source()
    created = await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    async with watched(kube, tenant.namespace) as history, seen_by_user(tenant) as seen:
        target = await mover.order(created)
        async with without(stack, CONTROLLERS[ENGINE_NAMESPACES.index(target)]):
            await mover.until_past("preparing", "pausing", "releasing")
            await mover.applications.until("its Application is there", lambda _: mover.places(created) == {target})
            assert (await mover.step(), await seen.changes(), await history.changes()) == ("adopting", [], ([], []))
            repository.commit(config_map("second"))
        await mover.until_done()
        await deployed.until(tenant.namespace, "second")
        await tenant.until_status("goes on", sync__revision=repository.repository.head(), **HEALTHY)
        assert await history.changes() == ([("ConfigMap", NAME)], [])
