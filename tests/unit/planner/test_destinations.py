"""What deployments and AppProjects make of the environments of their tenant."""

from __future__ import annotations

import json

import pytest

from tests.unit.planner.given import ENVIRONMENT, Removed, changed, environment, gone, resource_gone, secret
from tests.unit.planner.tenant import REMOTE, check, conditions, manifest, row, rows, says
from tests.unit.planner.world import World


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


def test_deployment_when_its_environment_goes_then_it_has_no_cluster_and_says_so(connected: World) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(resource_gone(5, ENVIRONMENT, "prod"))
    assert conditions(connected, "GitOpsDeployment", "web")["ErrorOccurred"][2].startswith("unable to reconcile")
    assert manifest(connected, "Application")["spec"]["destination"]["name"] == row(connected, "ClusterSecret").name
    says(connected, 6, Removed(forced=False), "ClusterSecret")
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


def test_environment_when_nothing_is_deployed_then_its_tenant_has_no_project(world: World) -> None:
    world.take(secret(1), environment(2))
    check(world, 3)
    assert rows(world, "ClusterSecret")
    assert rows(world, "AppProject") == []


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


# What is being taken away serves until it is gone, and is forgotten then


def test_deployment_when_the_secret_of_its_environment_is_replaced_by_a_bad_one_then_it_cannot_be_used(
    connected: World,
) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    says(connected, 6, Removed(forced=False), "ClusterSecret")
    connected.take(secret(7))
    connected.take(changed(8, "early", uid="uid-2", content=REMOTE))
    assert connected.application("uid-2") is None
    check(connected, 9, "UnableToValidateClusterCredentials")
    connected.take(changed(10, "late", uid="uid-3", content=REMOTE))
    shown = {
        name: conditions(connected, "GitOpsDeployment", name)["ErrorOccurred"] for name in ("web", "early", "late")
    }
    assert {state[0] for state in shown.values()} == {"True"}
    assert connected.application("uid-3") is None


def test_deployment_when_the_bad_secret_comes_before_the_old_one_is_removed_then_it_cannot_be_used_either(
    connected: World,
) -> None:
    connected.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    connected.take(secret(7))
    check(connected, 9, "UnableToValidateClusterCredentials")
    connected.take(changed(10, content=REMOTE))
    assert connected.application() is None


@pytest.mark.parametrize("with_secret", [False, True])
def test_deployment_when_deleted_after_its_environment_then_its_application_keeps_its_cluster(
    connected: World, with_secret: bool
) -> None:
    connected.take(changed(4, content=REMOTE))
    before = row(connected, "Application").manifest
    if with_secret:
        connected.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    connected.take(resource_gone(6, ENVIRONMENT, "prod"))
    connected.take(gone(7))
    assert (row(connected, "Application").desired, row(connected, "Application").manifest) == ("absent", before)


def test_project_when_the_cluster_secret_of_a_gone_environment_is_removed_then_it_lists_it_no_longer(
    connected: World,
) -> None:
    connected.take(changed(4, content=REMOTE))
    connected.take(resource_gone(5, ENVIRONMENT, "prod"))
    named = {item["name"] for item in manifest(connected, "AppProject")["spec"]["destinations"]}
    assert named == {"in-cluster", row(connected, "ClusterSecret").name}
    says(connected, 6, Removed(forced=False), "ClusterSecret")
    assert {item["name"] for item in manifest(connected, "AppProject")["spec"]["destinations"]} == {"in-cluster"}
