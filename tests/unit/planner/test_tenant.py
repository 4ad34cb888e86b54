"""What follows from all of a tenant's resources together: clusters, repositories, projects, syncs, allowances."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.api import FINALIZER
from services.common.messages import Checked, SyncMoved
from services.planner.events import Due, Event
from services.planner.kinds.limits import Limits
from services.planner.rows import EngineRow
from services.planner.rules import Rules
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    NAMESPACE,
    SYNC_RUN,
    WORKSPACE,
    Failed,
    Removed,
    at,
    changed,
    credential,
    environment,
    gone,
    observed,
    resource,
    resource_gone,
    resync,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.world import World

REMOTE = spec(destination={"environment": "prod", "namespace": "web"})
MANUAL = spec(type="manual")


@pytest.fixture
def world() -> World:
    return World()


def rows(world: World, kind: str) -> list[EngineRow]:
    return [row for row in world.engine.values() if row.kind == kind]


def row(world: World, kind: str) -> EngineRow:
    (found,) = rows(world, kind)
    return found


def manifest(world: World, kind: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row(world, kind).manifest)
    return content


def conditions(world: World, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
    (found,) = [known for known in world.workspace.values() if (known.kind, known.name) == (kind, name)]
    listed = json.loads(found.status).get("conditions", [])
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in listed}


def operation(world: World, name: str) -> dict[str, Any]:
    (found,) = [known for known in world.workspace.values() if (known.kind, known.name) == (SYNC_RUN, name)]
    part: dict[str, Any] = json.loads(found.status).get("operation", {})
    return part


def says(world: World, second: int, event: Any, kind: str) -> None:
    about = row(world, kind)
    world.take(observed(second, event, instance=about.engine_instance_id, kind=kind, name=about.name))


def check(world: World, second: int, reason: str = "Succeeded", kind: str = "ClusterSecret") -> None:
    says(world, second, Checked(row(world, kind).digest, reason, "" if reason == "Succeeded" else "why"), kind)


@pytest.fixture
def connected(world: World) -> World:
    """An environment that was checked."""
    world.take(secret(1), environment(2))
    check(world, 3)
    return world


# Environments


def test_environment_when_its_secret_is_there_then_a_recipe_for_a_cluster_secret_goes_out(world: World) -> None:
    world.take(environment(1, secret_type="managed-gitops.redhat.com/managed-environment"), secret(2))
    recipe = manifest(world, "ClusterSecret")["recipe"]
    assert recipe["server"] == f"https://cluster.example.com:6443?managedEnvironment={_id(world)}"
    assert recipe["secret"] == {"name": "kubeconfig", "version": "2", "sealed": "sealed-kubeconfig-2"}
    assert recipe["project"] == row(world, "ClusterSecret").lane


def test_environment_when_its_secret_is_missing_then_it_says_so_and_nothing_is_sent(world: World) -> None:
    world.take(environment(1))
    assert rows(world, "ClusterSecret") == []
    assert conditions(world, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][:2] == (
        "False",
        "SecretNotFound",
    )


def test_environment_when_its_secret_comes_later_then_it_is_compiled_without_being_touched(world: World) -> None:
    world.take(environment(1))
    world.take(secret(2))
    assert row(world, "ClusterSecret").desired == "present"


def test_environment_when_its_secret_changes_then_the_recipe_does(connected: World) -> None:
    connected.take(secret(9))
    assert manifest(connected, "ClusterSecret")["recipe"]["secret"]["sealed"] == "sealed-kubeconfig-9"


def test_environment_when_its_secret_is_listed_again_then_nothing_is_sent(connected: World) -> None:
    changes = connected.take(secret(9, version=1, epoch=5))
    assert (changes.engine, changes.resources) == ((), ())


def test_environment_when_its_secret_is_sealed_with_a_new_key_then_the_recipe_changes(connected: World) -> None:
    connected.take(secret(9, version=1, key="k2"))
    assert manifest(connected, "ClusterSecret")["recipe"]["secret"]["sealed"] == "sealed-kubeconfig-9"


def test_secret_when_an_old_sealing_is_replayed_then_nothing_changes(connected: World) -> None:
    connected.take(secret(9, version=1, key="k2"))
    changes = connected.take(secret(1, version=1, key="k1"))
    assert changes.engine == ()


def test_environment_when_checked_then_it_says_succeeded(connected: World) -> None:
    assert conditions(connected, ENVIRONMENT, "prod") == {
        "ConnectionInitializationSucceeded": ("True", "Succeeded", "")
    }


def test_environment_when_gone_then_its_cluster_secret_is_absent_until_seen_removed(connected: World) -> None:
    connected.take(resource_gone(9, ENVIRONMENT, "prod"))
    assert row(connected, "ClusterSecret").desired == "absent"
    assert connected.resources
    says(connected, 10, Removed(forced=False), "ClusterSecret")
    assert rows(connected, "ClusterSecret") == []
    assert [known.kind for known in connected.resources.values()] == ["Secret"]


def test_environment_when_it_waits_with_the_finalizer_then_it_is_released_after_the_removal(connected: World) -> None:
    connected.take(environment(9, deleting=True, finalizers=(FINALIZER,)))
    assert not any(known.release_finalizer for known in connected.workspace.values())
    says(connected, 10, Removed(forced=False), "ClusterSecret")
    assert any(known.release_finalizer for known in connected.workspace.values())


def test_environment_when_the_engine_refuses_its_secret_then_users_see_no_internals(connected: World) -> None:
    connected.take(secret(8))
    says(
        connected,
        9,
        Failed(row(connected, "ClusterSecret").digest, permanent=True, message="quota of etcd"),
        "ClusterSecret",
    )
    _, _, message = conditions(connected, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"]
    assert message == "an unknown error occurred"


# Deployments to environments


def test_deployment_when_its_environment_is_not_checked_yet_then_it_waits_without_an_error(world: World) -> None:
    world.take(secret(1), environment(2), changed(3, content=REMOTE))
    assert world.application() is None
    assert all("ErrorOccurred" not in known.status for known in world.workspace.values() if known.name == "web")


def test_deployment_when_its_environment_is_checked_then_it_goes_there(world: World) -> None:
    world.take(secret(1), environment(2), changed(3, content=REMOTE))
    check(world, 4)
    destination = manifest(world, "Application")["spec"]["destination"]
    assert destination == {"name": row(world, "ClusterSecret").name, "namespace": "web"}


def test_deployment_when_its_environment_is_missing_then_it_says_so_and_follows_when_it_comes(world: World) -> None:
    world.take(changed(1, content=REMOTE))
    assert conditions(world, "GitOpsDeployment", "web")["ErrorOccurred"][2].startswith("Unable to reconcile")
    world.take(secret(2), environment(3))
    check(world, 4)
    assert world.application() is not None
    assert conditions(world, "GitOpsDeployment", "web")["ErrorOccurred"][0] == "False"


def test_deployment_when_its_environment_has_no_secret_then_it_says_so(world: World) -> None:
    world.take(environment(1))
    world.take(changed(2, content=REMOTE))
    assert conditions(world, "GitOpsDeployment", "web")["ErrorOccurred"][2].startswith("Unable to reconcile")
    world.take(changed(3, "api", uid="uid-2", content=REMOTE), environment(4, generation=2))
    assert conditions(world, "GitOpsDeployment", "api")["ErrorOccurred"][2].startswith("Unable to reconcile")


def test_deployment_when_the_secret_of_its_environment_is_on_its_way_then_nothing_is_wrong(world: World) -> None:
    world.take(environment(1, secret_type="managed-gitops.redhat.com/managed-environment"))
    world.take(changed(2, content=REMOTE))
    assert all("ErrorOccurred" not in known.status for known in world.workspace.values() if known.name == "web")


def test_syncs_of_one_second_when_listed_again_then_they_keep_their_turn(world: World) -> None:
    world.take(sync_run(2, "b"), sync_run(2, "a", version=3))
    world.take(sync_run(2, "b", version=9, epoch=5), sync_run(2, "a", version=8, epoch=5))
    world.take(changed(4, content=MANUAL))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-b"


def test_deployment_when_its_environment_goes_then_it_has_no_cluster_and_says_so(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(resource_gone(5, ENVIRONMENT, "prod"))
    assert manifest(connected, "Application")["spec"]["destination"]["name"] == ""
    assert conditions(connected, "GitOpsDeployment", "web")["ErrorOccurred"][2].startswith("unable to reconcile")


def test_deployment_when_its_environment_is_made_anew_then_it_goes_to_the_new_one(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(resource_gone(5, ENVIRONMENT, "prod"))
    says(connected, 6, Removed(forced=False), "ClusterSecret")
    connected.take(environment(7, uid="uid-second"))
    check(connected, 8)
    destination = manifest(connected, "Application")["spec"]["destination"]["name"]
    assert destination == row(connected, "ClusterSecret").name


def test_deployment_when_its_environment_fails_a_later_check_then_its_application_stays(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    before = row(connected, "Application")
    check(connected, 5, "UnableToValidateClusterCredentials")
    assert row(connected, "Application") == before


def test_deployment_when_deleted_with_its_environment_then_its_application_keeps_its_cluster(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(gone(5), resource_gone(6, ENVIRONMENT, "prod"))
    assert manifest(connected, "Application")["spec"]["destination"]["name"] == row(connected, "ClusterSecret").name
    absent = {known.kind for known in connected.engine.values() if known.desired == "absent"}
    assert absent == {"Application", "ClusterSecret"}


def test_project_when_there_are_environments_then_it_lists_them_with_their_namespaces(connected: World) -> None:
    connected.take(secret(4, "second"), environment(5, "stage", "second", namespaces=["b", "a"]), changed(6))
    (stage,) = [known for known in connected.resources.values() if known.name == "stage"]
    (prod,) = [known for known in connected.resources.values() if known.name == "prod"]
    destinations = manifest(connected, "AppProject")["spec"]["destinations"]
    assert destinations[0] == {"name": "in-cluster", "namespace": "team-a"}
    assert sorted((item["name"], item["namespace"]) for item in destinations[1:]) == sorted(
        [
            (f"managed-env-{prod.id}", "*"),
            (f"managed-env-{stage.id}", "a"),
            (f"managed-env-{stage.id}", "b"),
        ]
    )


def test_project_when_an_environment_allows_cluster_resources_then_only_a_second_one_does(world: World) -> None:
    world.take(
        secret(1), environment(2, clusterResources=True), changed(3), changed(4, "far", uid="uid-2", content=REMOTE)
    )
    check(world, 5)
    projects = {known.name: json.loads(known.manifest)["spec"] for known in rows(world, "AppProject")}
    lane = row(world, "ClusterSecret").lane
    assert "clusterResourceWhitelist" not in projects[lane]
    assert [item["name"] for item in projects[lane]["destinations"]] == ["in-cluster"]
    privileged = projects[f"{lane}-cluster"]
    assert privileged["clusterResourceWhitelist"] == [{"group": "*", "kind": "*"}]
    assert [item["name"] for item in privileged["destinations"]] == [row(world, "ClusterSecret").name]
    applications = {known.name: json.loads(known.manifest)["spec"]["project"] for known in rows(world, "Application")}
    assert applications == {"gitopsdepl-uid-1": lane, "gitopsdepl-uid-2": f"{lane}-cluster"}


# Credentials


def test_credential_when_its_secret_is_there_then_only_the_tenants_project_may_use_it(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    recipe = manifest(world, "RepositorySecret")["recipe"]
    assert recipe["project"] == row(world, "AppProject").name
    assert recipe["repository"] == "https://git.example.com/team-a/private.git"
    assert manifest(world, "AppProject")["spec"]["sourceRepos"] == ["https://git.example.com/team-a/private"]


def test_credential_when_checked_then_it_has_its_three_conditions(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    check(world, 3, "RepositoryCredentialUpToDate", "RepositorySecret")
    assert {type_: state[0] for type_, state in conditions(world, CREDENTIAL, "login").items()} == {
        "ErrorOccurred": "False",
        "ValidRepositoryCredential": "True",
        "ValidRepositoryURL": "True",
    }


def test_credential_when_its_secret_has_another_type_then_it_says_so(world: World) -> None:
    world.take(credential(1, secret_type="Opaque"))
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][1] == "SecretInvalidType"


def test_credential_when_it_or_its_secret_changes_then_the_recipe_does(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    world.take(secret(3, "login", "repository-credential"))
    assert manifest(world, "RepositorySecret")["recipe"]["secret"]["sealed"] == "sealed-login-3"
    moved_on = {"repository": "https://git.example.com/team-a/other.git", "secret": "login"}
    world.take(resource(4, CREDENTIAL, "login", moved_on, generation=2))
    assert manifest(world, "RepositorySecret")["recipe"]["repository"] == moved_on["repository"]


def test_credential_when_gone_then_nothing_of_the_tenant_stays(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    world.take(resource_gone(3, CREDENTIAL, "login"), resource_gone(4, "Secret", "login", "uid-secret-login"))
    says(world, 5, Removed(forced=False), "RepositorySecret")
    says(world, 6, Removed(forced=False), "AppProject")
    assert (world.engine, world.resources, world.tenants) == ({}, {}, {})


def test_secret_of_one_namespace_when_named_in_another_then_it_is_not_found(world: World) -> None:
    world.take(secret(1, "login", "repository-credential", namespace="team-b"), credential(2))
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][1] == "SecretNotFound"


# Sync runs


@pytest.fixture
def manual(world: World) -> World:
    world.take(changed(1, content=MANUAL))
    return world


def moved(run: str, phase: str, **times: str) -> SyncMoved:
    return SyncMoved(f"uid-{run}", phase, "", "abc", times.get("started", ""), times.get("finished", ""))


def finish(world: World, second: int, run: str) -> None:
    ended = moved(run, "Succeeded", started="2026-05-04T12:00:00Z", finished="2026-05-04T12:00:01Z")
    says(world, second, ended, "SyncOperation")


def test_sync_when_run_then_the_order_names_run_sequence_and_revision(manual: World) -> None:
    manual.take(sync_run(2))
    assert manifest(manual, "SyncOperation")["operation"] == {
        "run": "uid-now",
        "sequence": 2000,
        "revision": "HEAD",
        "state": "Running",
    }


def test_sync_when_several_are_asked_for_then_they_run_one_after_the_other(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-first"
    finish(manual, 4, "first")
    assert manifest(manual, "SyncOperation")["operation"] == {
        "run": "uid-second",
        "sequence": 3000,
        "revision": "HEAD",
        "state": "Running",
    }
    finish(manual, 5, "second")
    assert rows(manual, "SyncOperation") == []
    assert operation(manual, "second")["phase"] == "Succeeded"


def test_sync_when_terminated_before_it_began_then_it_is_over(manual: World) -> None:
    manual.take(sync_run(2))
    says(manual, 3, moved("now", "Terminated"), "SyncOperation")
    assert rows(manual, "SyncOperation") == []
    assert operation(manual, "now")["phase"] == "Terminated"


def test_sync_when_the_engine_refuses_the_order_then_it_fails_and_the_next_runs(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    says(manual, 4, Failed(row(manual, "SyncOperation").digest, permanent=True, message="no"), "SyncOperation")
    assert operation(manual, "first")["phase"] == "Error"
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-second"


def test_sync_when_argocd_retries_it_then_it_is_not_over(manual: World) -> None:
    manual.take(sync_run(2))
    says(manual, 3, moved("now", "Running", finished="2026-05-04T12:00:01Z"), "SyncOperation")
    assert len(rows(manual, "SyncOperation")) == 1


def test_sync_when_it_has_ended_then_a_list_does_not_run_it_again(manual: World) -> None:
    manual.take(sync_run(2))
    finish(manual, 3, "now")
    changes = manual.take(sync_run(2, epoch=7), resync(8, 7, kind=SYNC_RUN))
    assert (changes.engine, rows(manual, "SyncOperation")) == ((), [])


def test_sync_when_its_deployment_comes_later_then_it_starts(world: World) -> None:
    world.take(sync_run(1))
    assert conditions(world, SYNC_RUN, "now")["ErrorOccurred"][2].startswith(
        "Unable to retrieve GitOpsDeployment 'web'"
    )
    world.take(changed(2, content=MANUAL))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-now"
    assert conditions(world, SYNC_RUN, "now")["ErrorOccurred"] == ("False", "", "")


def test_sync_when_its_deployment_is_automated_then_it_is_refused(world: World) -> None:
    world.take(changed(1), sync_run(2))
    assert rows(world, "SyncOperation") == []
    assert "Automated sync policy is not allowed" in conditions(world, SYNC_RUN, "now")["ErrorOccurred"][2]


def test_sync_when_its_cr_goes_while_it_runs_then_it_is_terminated_and_the_next_starts(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    manual.take(resource_gone(4, SYNC_RUN, "first"))
    assert manifest(manual, "SyncOperation")["operation"]["state"] == "Terminated"
    finish(manual, 5, "first")
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-second"
    assert operation(manual, "second")["phase"] == "Running"


def test_sync_when_its_deployment_goes_then_the_order_is_withdrawn(manual: World) -> None:
    manual.take(sync_run(2))
    manual.take(gone(3))
    assert rows(manual, "SyncOperation") == []


def test_sync_when_another_tenant_reports_on_it_then_nothing_changes(manual: World) -> None:
    manual.take(sync_run(2))
    order = row(manual, "SyncOperation")
    manual.take(changed(3, uid="uid-9", namespace="team-b"))
    stranger = observed(
        4, moved("now", "Failed"), instance=order.engine_instance_id, kind="SyncOperation", namespace="team-b"
    )
    manual.take(stranger)
    assert rows(manual, "SyncOperation") == [order]


# Allowances


def test_deployment_when_there_is_no_room_then_it_says_so_and_gets_the_room_that_others_leave(world: World) -> None:
    world.rules = Rules(limits=Limits(deployments=1))
    world.take(changed(1), changed(2, "api", uid="uid-2"))
    assert conditions(world, "GitOpsDeployment", "api")["ErrorOccurred"][2].startswith("quota exceeded: ")
    assert world.application("uid-2") is None
    assert [known.over_quota for known in world.deployments.values()] == [False, True]


def test_deployment_when_its_tenant_has_too_many_bytes_then_it_waits_for_room(world: World) -> None:
    world.rules = Rules(limits=Limits(bytes=200))
    world.take(changed(1), changed(2, "api", uid="uid-2"))
    (api,) = [known for known in world.deployments.values() if known.name == "api"]
    assert (api.spec, api.over_quota) == (None, True)
    assert api.blocked.startswith("quota exceeded: ")


def test_deployments_when_more_wait_than_may_be_had_then_further_offers_are_not_kept(world: World) -> None:
    world.rules = Rules(limits=Limits(deployments=1))
    world.take(*(changed(number, f"w-{number}", uid=f"uid-{number}") for number in range(1, 5)))
    offers = {known.name: (known.offered is not None, known.error != "") for known in world.deployments.values()}
    assert offers == {"w-1": (False, False), "w-2": (True, False), "w-3": (False, True), "w-4": (False, True)}
    assert conditions(world, "GitOpsDeployment", "w-4")["ErrorOccurred"][2].startswith("quota exceeded: ")


def test_change_when_there_is_no_room_for_it_then_the_error_stays_whatever_else_happens(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.rules = Rules(limits=Limits(bytes=600))
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
    world.rules = Rules(limits=Limits(secrets=1))
    world.take(secret(1), secret(2, "short"), resource(3, "Secret", "long", {"sealed": "x" * 5000}))
    kept = {known.name: (known.over_quota, len(known.spec) > 2) for known in world.resources.values()}
    assert kept == {"kubeconfig": (False, True), "short": (True, True), "long": (True, False)}


# Fences and identities


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
    world.rules = Rules(local_workspaces=frozenset({"local", "elsewhere"}))
    world.take(changed(1))
    mine = world.application()
    world.take(changed(2, workspace="elsewhere"))
    world.take(changed(3, workspace="elsewhere", deleting=True))
    assert world.application() == mine


# What an engine holds stays in force until something better has worked


def test_project_when_an_environment_becomes_wrong_then_its_deployments_keep_their_right(
    connected: World,
) -> None:
    connected.take(changed(4, content=REMOTE))
    before = manifest(connected, "AppProject")["spec"]["destinations"]
    connected.take(environment(5, generation=2, apiURL="https://169.254.169.254"))
    assert manifest(connected, "AppProject")["spec"]["destinations"] == before
    assert row(connected, "ClusterSecret").desired == "present"


def test_deployment_when_its_environment_names_another_cluster_then_a_new_one_waits_for_its_check(
    connected: World,
) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(environment(5, generation=2, apiURL="https://other.example.com"))
    connected.take(changed(6, "late", uid="uid-2", content=REMOTE))
    assert connected.application("uid-2") is None
    check(connected, 7)
    assert connected.application("uid-2") is not None


def test_application_when_its_environment_is_to_allow_more_then_it_changes_projects_once_that_works(
    connected: World,
) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(environment(5, generation=2, clusterResources=True))
    assert not manifest(connected, "Application")["spec"]["project"].endswith("-cluster")
    check(connected, 6)
    assert manifest(connected, "Application")["spec"]["project"].endswith("-cluster")


def test_secret_when_it_is_deleted_then_what_was_made_of_it_goes(connected: World) -> None:
    connected.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert row(connected, "ClusterSecret").desired == "absent"
    assert conditions(connected, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][1] == "SecretNotFound"


def test_deployment_when_the_secret_went_before_then_the_outcome_is_the_same_in_one_batch_or_two() -> None:
    shown = []
    for batches in (([0, 1],), ([0], [1])):
        world = World()
        world.take(secret(1), environment(2))
        check(world, 3)
        events = [resource_gone(4, "Secret", "kubeconfig", "uid-secret-kubeconfig"), changed(5, content=REMOTE)]
        for batch in batches:
            world.take(*(events[number] for number in batch))
        shown.append(
            (conditions(world, "GitOpsDeployment", "web"), sorted(known.name for known in world.engine.values()))
        )
    assert shown[0] == shown[1]


def test_credential_when_the_engine_refuses_its_secret_then_the_reason_is_one_of_its_own(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    refused = Failed(row(world, "RepositorySecret").digest, permanent=True, message="no")
    says(world, 3, refused, "RepositorySecret")
    assert {state[1] for state in conditions(world, CREDENTIAL, "login").values()} == {"KubernetesError"}


# Runs, once more


def test_sync_when_an_old_message_tells_of_it_after_its_end_then_it_does_not_run_again(manual: World) -> None:
    manual.take(sync_run(2))
    finish(manual, 3, "now")
    manual.take(resource_gone(4, SYNC_RUN, "now"))
    changes = manual.take(sync_run(2, epoch=9))
    assert (changes.engine, rows(manual, "SyncOperation")) == ((), [])


def test_sync_when_it_is_swept_wrongly_after_its_end_then_it_does_not_run_again(manual: World) -> None:
    manual.take(sync_run(2))
    finish(manual, 3, "now")
    manual.take(resync(4, 5, kind=SYNC_RUN))
    changes = manual.take(sync_run(2, epoch=6))
    assert (changes.engine, rows(manual, "SyncOperation")) == ((), [])


def test_sync_when_it_comes_before_the_change_it_means_then_it_waits_for_that(world: World) -> None:
    world.take(changed(1))
    world.take(sync_run(3, target=("uid-1", 2)))
    assert operation(world, "now")["phase"] == "Waiting"
    world.take(changed(2, generation=2, content=MANUAL))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-now"


def test_sync_when_it_means_a_newer_incarnation_then_it_waits_for_that(manual: World) -> None:
    manual.take(sync_run(9, target=("uid-2", 1)))
    assert rows(manual, "SyncOperation") == []
    manual.take(changed(10, uid="uid-2", content=MANUAL))
    assert manifest(manual, "SyncOperation")["metadata"]["name"] == "gitopsdepl-uid-2"


def test_sync_when_its_cr_waits_with_the_finalizer_then_it_is_released_after_the_end(manual: World) -> None:
    manual.take(sync_run(2))
    manual.take(sync_run(3, deleting=True, finalizers=(FINALIZER,), version=3))
    assert not any(known.release_finalizer for known in manual.workspace.values())
    finish(manual, 4, "now")
    assert any(known.release_finalizer for known in manual.workspace.values())


# The audit ends, and so does the notice


def test_operations_when_everything_has_come_to_its_end_then_none_waits(manual: World) -> None:
    manual.take(sync_run(2), environment(3), secret(4, "login", "repository-credential"), credential(5))
    finish(manual, 6, "now")
    check(manual, 7, "RepositoryCredentialUpToDate", "RepositorySecret")
    manual.take(credential(8, generation=2))
    manual.take(resource_gone(9, SYNC_RUN, "now"), resource_gone(10, ENVIRONMENT, "prod"))
    manual.take(resource_gone(11, CREDENTIAL, "login"))
    says(manual, 12, Removed(forced=False), "RepositorySecret")
    kinds = (SYNC_RUN, ENVIRONMENT, CREDENTIAL)
    assert {known.state for known in manual.operations.values() if known.kind in kinds} == {"Completed"}


def test_notice_when_the_held_back_change_is_long_past_then_it_ends(world: World) -> None:
    world.take(changed(1, held_back_ms=5000), sync_run(2, held_back_ms=5000))
    assert conditions(world, "GitOpsDeployment", "web")["Throttled"][0] == "True"
    due = [*world.deployments, *world.resources]
    world.take(*(Event(Due(WORKSPACE, NAMESPACE, each, at(90)), 0, "") for each in due))
    assert conditions(world, "GitOpsDeployment", "web")["Throttled"][0] == "False"
    assert conditions(world, SYNC_RUN, "now")["Throttled"][0] == "False"


def test_environment_when_there_is_no_room_then_it_waits_for_it(world: World) -> None:
    world.rules = Rules(limits=Limits(environments=1))
    world.take(secret(1), environment(2), environment(3, "stage"))
    assert len(rows(world, "ClusterSecret")) == 1
    assert conditions(world, ENVIRONMENT, "stage")["ErrorOccurred"][2].startswith("quota exceeded: ")
    world.take(resource_gone(4, ENVIRONMENT, "prod"))
    assert sorted(known.desired for known in rows(world, "ClusterSecret")) == ["absent", "present"]


def _id(world: World) -> str:
    (found,) = [known for known in world.resources.values() if known.kind == ENVIRONMENT]
    return str(found.id)
