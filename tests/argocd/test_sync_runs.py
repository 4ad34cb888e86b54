"""Manual deployments: what a GitOpsDeploymentSyncRun makes real Argo CD do."""

from __future__ import annotations

from services.kinds.sync_run.model import SYNC_RUN
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Sources, config_map, endless_hook
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant

MANUAL = {"type": "manual"}


async def test_manual_deployment_when_there_is_a_commit_then_it_waits_for_its_run(
    tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    repository = source()
    await tenant.create(**MANUAL, source=repository.spec())
    await tenant.until_status("compared", sync__revision=repository.repository.head(), sync__status="OutOfSync")
    second = repository.commit(config_map("second"))
    await tenant.until_status("compared again", sync__revision=second, sync__status="OutOfSync")
    assert deployed.value(tenant.namespace) is None
    await api.sync_run("release")
    operation = await api.until_phase("release", "Succeeded")
    assert (operation["revision"], operation["message"]) == (second, "successfully synced (all tasks run)")
    await tenant.until_status("synced", **HEALTHY)
    assert deployed.value(tenant.namespace) == "second"


async def test_run_when_it_names_an_older_commit_then_that_is_deployed(
    tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    repository = source()
    first = repository.repository.head()
    repository.commit(config_map("second"))
    await tenant.create(**MANUAL, source=repository.spec())
    await api.sync_run("newest")
    await api.until_phase("newest", "Succeeded")
    await deployed.until(tenant.namespace, "second")
    await tenant.until_status("the newest", **HEALTHY)
    await api.sync_run("back", revisionID=first)
    assert (await api.until_phase("back", "Succeeded"))["revision"] == first
    await deployed.until(tenant.namespace, "first")
    await tenant.until_status("not the newest", sync__status="OutOfSync")


async def test_run_when_its_revision_does_not_exist_then_it_fails_with_argocds_own_words(
    tenant: Tenant, api: Api, source: Sources
) -> None:
    await tenant.create(**MANUAL, source=source().spec())
    await api.sync_run("lost", revisionID="no-such-branch")
    await api.until_phase("lost", "Error")
    assert "unable to resolve 'no-such-branch' to a commit SHA" in api.operation("lost")["message"]


async def test_run_when_deleted_while_it_runs_then_the_sync_is_terminated_and_the_next_can_begin(
    tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    repository = source(config_map("first"), endless_hook())
    created = await tenant.create(**MANUAL, source=repository.spec())
    await api.sync_run("stuck")
    await tenant.until_operation(created, "Running", "waiting for completion of hook")
    await api.until_phase("stuck", "Running")
    await api.delete(SYNC_RUN, "stuck")
    await tenant.until_operation(created, "Failed", "Operation terminated")
    repository.remove(endless_hook())
    await api.sync_run("after")
    await api.until_phase("after", "Succeeded")
    assert deployed.value(tenant.namespace) == "first"


async def test_deployment_when_deleted_while_a_run_is_under_way_then_it_goes_all_the_same(
    tenant: Tenant, api: Api, source: Sources
) -> None:
    created = await tenant.create(**MANUAL, source=source(config_map("first"), endless_hook()).spec())
    await api.sync_run("stuck")
    await tenant.until_operation(created, "Running", "waiting for completion of hook")
    await tenant.delete()
    await tenant.until_application_gone(created)
