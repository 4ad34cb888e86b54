"""What follows from all of a tenant's resources together: allowances, identities, ends."""

from __future__ import annotations

import pytest

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain.events import Due, Event
from services.planner.domain.policy import Policy
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    NAMESPACE,
    SYNC_RUN,
    WORKSPACE,
    Removed,
    changed,
    credential,
    environment,
    gone,
    resource,
    resource_gone,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.tenant import REMOTE, check, conditions, finish, manifest, rows, says
from tests.unit.planner.world import World


def test_deployment_when_there_is_no_room_then_it_says_so_and_gets_the_room_that_others_leave(world: World) -> None:
    world.policy = Policy(limits=REGISTRY.limits({GITOPS_DEPLOYMENT.kind: 1}))
    world.take(changed(1), changed(2, "api", uid="uid-2"))
    assert conditions(world, "GitOpsDeployment", "api")["ErrorOccurred"][2].startswith("quota exceeded: ")
    assert world.application("uid-2") is None
    assert [known.over_quota for known in world.deployments.values()] == [False, True]


def test_deployment_when_its_tenant_has_too_many_bytes_then_it_waits_for_room(world: World) -> None:
    world.policy = Policy(limits=REGISTRY.limits(bytes_=200))
    world.take(changed(1), changed(2, "api", uid="uid-2"))
    (api,) = [known for known in world.deployments.values() if known.name == "api"]
    assert (api.spec, api.over_quota) == (None, True)
    assert api.pending_reason.startswith("quota exceeded: ")


def test_deployments_when_more_wait_than_may_be_had_then_further_offers_are_not_kept(world: World) -> None:
    world.policy = Policy(limits=REGISTRY.limits({GITOPS_DEPLOYMENT.kind: 1}))
    world.take(*(changed(number, f"w-{number}", uid=f"uid-{number}") for number in range(1, 5)))
    pending = {known.name: (known.pending_spec is not None, known.error != "") for known in world.deployments.values()}
    assert pending == {"w-1": (False, False), "w-2": (True, False), "w-3": (False, True), "w-4": (False, True)}
    assert conditions(world, "GitOpsDeployment", "w-4")["ErrorOccurred"][2].startswith("quota exceeded: ")


def test_change_when_there_is_no_room_for_it_then_the_error_stays_whatever_else_happens(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.policy = Policy(limits=REGISTRY.limits(bytes_=600))
    longer = spec(destination={"environment": "prod", "namespace": "web"}, source={"path": "a" * 500})
    connected.take(changed(5, generation=2, content=longer))
    assert conditions(connected, "GitOpsDeployment", "web")["ErrorOccurred"][0] == "True"
    connected.take(secret(6, "other"))
    assert conditions(connected, "GitOpsDeployment", "web")["ErrorOccurred"][0] == "True"
    assert manifest(connected, "Application")["spec"]["source"]["path"] == "apps/web"


def test_deployment_when_a_newer_spec_is_wrong_then_the_one_before_it_is_not_deployed(world: World) -> None:
    world.take(secret(1), environment(2), changed(3, content=REMOTE))
    world.take(changed(4, generation=2, content=spec(source={"path": "/"})))
    check(world, 5)
    assert world.application() is None


def test_resource_when_beyond_the_allowance_then_only_a_short_one_is_kept(world: World) -> None:
    world.policy = Policy(limits=REGISTRY.limits({SECRET.kind: 1}))
    world.take(secret(1), secret(2, "short"), resource(3, "Secret", "long", {"sealed": "x" * 5000}))
    kept = {known.name: (known.over_quota, len(known.spec) > 2) for known in world.resources.values()}
    assert kept == {"kubeconfig": (False, True), "short": (True, True), "long": (True, False)}


def test_tenant_when_it_still_has_a_secret_then_it_stays(world: World) -> None:
    world.take(secret(1), changed(2))
    world.take(gone(3))
    for kind in ("Application", "AppProject"):
        says(world, 4, Removed(forced=False), kind)
    assert (world.engine, len(world.tenants), len(world.resources)) == ({}, 1, 1)
    world.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert (world.tenants, world.resources) == ({}, {})


def test_namespace_of_another_workspaces_cluster_then_it_is_none_of_the_engines(world: World) -> None:
    world.take(changed(1, namespace="kube-system", workspace="elsewhere"))
    assert world.application() is None
    (shown,) = world.workspace.values()
    assert "need an environment" in shown.status


@pytest.mark.parametrize("namespace", ["kube-system", "gitops-service", "argocd-1"])
def test_namespace_when_it_is_the_platforms_then_nothing_is_deployed_there(world: World, namespace: str) -> None:
    world.take(changed(1, namespace=namespace))
    assert world.application() is None
    assert "belongs to the platform" in next(iter(world.workspace.values())).status


def test_uid_when_another_workspace_gives_it_out_too_then_the_first_keeps_its_application(world: World) -> None:
    world.fleet = world.fleet[:1]
    world.policy = Policy(local_workspaces=dict.fromkeys(("local", "elsewhere"), frozenset({"default"})))
    world.take(changed(1))
    mine = world.application()
    world.take(changed(2, workspace="elsewhere"))
    world.take(changed(3, workspace="elsewhere", deleting=True))
    assert world.application() == mine


def test_operations_when_everything_has_come_to_its_end_then_none_waits(manual: World) -> None:
    manual.take(sync_run(2), environment(3), secret(4, "login", "repository-credential"), credential(5))
    finish(manual, 6, "now")
    check(manual, 7, "RepositoryCredentialUpToDate", "RepositorySecret")
    manual.take(credential(8, generation=2))
    manual.take(resource_gone(9, SYNC_RUN, "now"), resource_gone(10, ENVIRONMENT, "prod"))
    manual.take(resource_gone(11, CREDENTIAL, "login"))
    says(manual, 12, Removed(forced=False), "RepositorySecret")
    kinds = (SYNC_RUN, ENVIRONMENT, CREDENTIAL)
    assert {known.state for known in manual.audit_records.values() if known.kind in kinds} == {"Completed"}


def test_notice_when_the_held_back_change_is_long_past_then_it_ends(world: World) -> None:
    world.take(changed(1, held_back_ms=5000), sync_run(2, held_back_ms=5000))
    assert conditions(world, "GitOpsDeployment", "web")["Throttled"][0] == "True"
    due = [*world.deployments, *world.resources]
    world.take(*(Event(Due(WORKSPACE, NAMESPACE, each), 0, "") for each in due))
    assert conditions(world, "GitOpsDeployment", "web")["Throttled"][0] == "False"
    assert conditions(world, SYNC_RUN, "now")["Throttled"][0] == "False"


def test_environment_when_there_is_no_room_then_it_waits_for_it(world: World) -> None:
    world.policy = Policy(limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 1}))
    world.take(secret(1), environment(2), environment(3, "stage"))
    assert len(rows(world, "ClusterSecret")) == 1
    assert conditions(world, ENVIRONMENT, "stage")["ErrorOccurred"][2].startswith("quota exceeded: ")
    world.take(resource_gone(4, ENVIRONMENT, "prod"))
    assert [known.desired for known in rows(world, "ClusterSecret")] == ["absent"]
    says(world, 5, Removed(forced=False), "ClusterSecret")
    assert [known.desired for known in rows(world, "ClusterSecret")] == ["present"]
