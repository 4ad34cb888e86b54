"""What a tenant may have, over several batches: what is in force stays, and what is there counts until it is gone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.limits import DEFAULT_BYTES, DEFAULT_DESTINATIONS
from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    Removed,
    changed,
    credential,
    environment,
    observed,
    resource,
    resource_gone,
    secret,
)
from tests.unit.planner.tenant import REMOTE, check, conditions, manifest, row, rows
from tests.unit.planner.world import World

MANY = [f"namespace-{number:02d}" for number in range(60)]


def limit(
    world: World,
    *,
    environments: int = 100,
    credentials: int = 100,
    destinations: int = DEFAULT_DESTINATIONS,
    bytes_: int = DEFAULT_BYTES,
) -> None:
    counts = {MANAGED_ENVIRONMENT.kind: environments, REPOSITORY_CREDENTIAL.kind: credentials}
    world.policy = replace(world.policy, limits=REGISTRY.limits(counts, destinations=destinations, bytes_=bytes_))


def removed(world: World, second: int, held: EngineRow) -> None:
    world.take(
        observed(second, Removed(forced=False), instance=held.engine_instance_id, kind=held.kind, name=held.name)
    )


def is_refused(world: World, kind: str, name: str) -> bool:
    return conditions(world, kind, name)["ErrorOccurred"][2].startswith("quota exceeded: ")


# What is in force stays so


@pytest.mark.parametrize("limits", [{"bytes_": 900}, {"destinations": 5}], ids=["bytes", "destinations"])
def test_environment_when_it_outgrows_the_allowance_then_its_deployments_keep_their_cluster_whatever_follows(
    connected: World, limits: dict[str, int]
) -> None:
    connected.take(changed(4, content=REMOTE))
    limit(connected, **limits)
    application, project = row(connected, "Application"), row(connected, "AppProject")
    connected.take(environment(5, generation=2, namespaces=MANY))
    assert conditions(connected, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][1] == "QuotaExceeded"
    connected.take(changed(4, version=6, epoch=2, content=REMOTE))
    check(connected, 7)
    connected.take(secret(8, "other"))
    connected.take(changed(9, "here", uid="uid-2"))
    applications = {known.name: known for known in rows(connected, "Application")}
    assert applications["gitopsdepl-uid-1"] == application
    assert row(connected, "AppProject").manifest == project.manifest
    assert row(connected, "ClusterSecret").desired == "present"


def test_environment_when_it_fits_again_then_it_is_taken_up(connected: World) -> None:
    limit(connected, destinations=5)
    connected.take(environment(5, generation=2, namespaces=MANY))
    connected.take(environment(6, generation=3, namespaces=["a", "b"]))
    assert manifest(connected, "ClusterSecret")["recipe"]["namespaces"] == ["a", "b"]


def test_credential_when_it_outgrows_the_allowance_then_its_repository_stays_in_the_project(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    limit(world, bytes_=400)
    project = row(world, "AppProject")
    longer = {"repository": "https://git.example.com/" + "a" * 400, "secret": "login"}
    world.take(resource(3, CREDENTIAL, "login", longer, generation=2))
    assert is_refused(world, CREDENTIAL, "login")
    world.take(changed(4))
    assert set(manifest(world, "AppProject")["spec"]["sourceRepos"]) > set(
        json.loads(project.manifest)["spec"]["sourceRepos"]
    )


def test_secret_when_it_is_deleted_after_its_environment_became_wrong_then_what_was_made_of_it_goes(
    connected: World,
) -> None:
    connected.take(environment(5, generation=2, apiURL="https://169.254.169.254"))
    connected.take(resource_gone(6, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert row(connected, "ClusterSecret").desired == "absent"


def test_secret_when_it_is_deleted_after_its_environment_outgrew_the_allowance_then_what_was_made_of_it_goes(
    connected: World,
) -> None:
    limit(connected, destinations=5)
    connected.take(environment(5, generation=2, namespaces=MANY))
    connected.take(resource_gone(6, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert row(connected, "ClusterSecret").desired == "absent"


# Namespaces that environments list


def test_environments_when_they_list_more_namespaces_than_a_tenant_may_then_the_newest_says_so(world: World) -> None:
    limit(world, destinations=3)
    world.take(secret(1), environment(2, "first", namespaces=["a", "b"]), environment(3, namespaces=["a", "b"]))
    assert not any("quota" in known.status for known in world.workspace.values() if known.name == "first")
    status, reason, message = conditions(world, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"]
    assert (status, reason) == ("Unknown", "QuotaExceeded")
    assert "3 namespaces listed in them" in message


def test_environments_when_they_list_no_namespace_then_each_counts_as_one(world: World) -> None:
    limit(world, destinations=2)
    world.take(secret(1), *(environment(2 + number, f"e-{number}") for number in range(3)))
    assert [known.over_quota for known in world.resources.values() if known.kind == ENVIRONMENT].count(True) == 1


def test_environment_when_its_list_is_replaced_then_both_count_until_the_new_one_has_worked(world: World) -> None:
    limit(world, destinations=5)
    world.take(secret(1), environment(2, namespaces=["a", "b"]))
    check(world, 3)
    world.take(environment(4, generation=2, namespaces=["c", "d"]))
    world.take(environment(5, "next", namespaces=["e", "f"]))
    assert is_refused(world, ENVIRONMENT, "next")
    (prod,) = rows(world, "ClusterSecret")
    check(world, 6)
    assert len(rows(world, "ClusterSecret")) == 2
    assert prod in rows(world, "ClusterSecret")


def test_environment_when_it_is_wrong_then_what_is_in_force_of_it_still_counts(connected: World) -> None:
    connected.take(environment(4, generation=2, namespaces=["a", "b", "c"]))
    check(connected, 5)
    limit(connected, destinations=4)
    connected.take(environment(6, generation=3, apiURL="https://169.254.169.254", namespaces=["a"]))
    connected.take(environment(7, "next", namespaces=["d", "e"]))
    assert is_refused(connected, ENVIRONMENT, "next")


# Until the engine holds nothing of it


def test_environments_when_made_anew_while_their_cluster_is_silent_then_no_more_is_held_than_may_be(
    world: World,
) -> None:
    limit(world, environments=3)
    world.take(secret(1))
    for cycle in range(5):
        second = 10 * cycle
        world.take(*(environment(second + n, f"e-{n}", uid=f"uid-{cycle}-{n}") for n in range(2, 5)))
        world.take(*(resource_gone(second + n, ENVIRONMENT, f"e-{n}", uid=f"uid-{cycle}-{n}") for n in range(5, 8)))
        world.take(*(resource_gone(second + 8, ENVIRONMENT, f"e-{n}", uid=f"uid-{cycle}-{n}") for n in range(2, 5)))
    assert [held.desired for held in rows(world, "ClusterSecret")] == ["absent"] * 3


@pytest.mark.parametrize("limits", [{"environments": 1}, {"destinations": 1}], ids=["number", "destinations"])
def test_environment_when_the_one_before_it_is_gone_from_the_engine_then_it_has_its_room(
    connected: World, limits: dict[str, int]
) -> None:
    limit(connected, **limits)
    connected.take(resource_gone(4, ENVIRONMENT, "prod"))
    connected.take(environment(5, "next"))
    assert is_refused(connected, ENVIRONMENT, "next")
    removed(connected, 6, row(connected, "ClusterSecret"))
    assert row(connected, "ClusterSecret").desired == "present"
    assert not is_refused(connected, ENVIRONMENT, "next")


def test_credential_when_the_one_before_it_has_gone_from_both_projects_then_it_has_its_room(world: World) -> None:
    world.take(secret(1), environment(2, clusterResources=True), secret(3, "login", "repository-credential"))
    world.take(credential(4))
    limit(world, credentials=1)
    world.take(resource_gone(5, CREDENTIAL, "login"), credential(6, "next"))
    assert is_refused(world, CREDENTIAL, "next")
    first, second = rows(world, "RepositorySecret")
    removed(world, 7, first)
    assert is_refused(world, CREDENTIAL, "next")
    removed(world, 8, second)
    assert [held.desired for held in rows(world, "RepositorySecret")] == ["present", "present"]


def test_change_of_a_deployment_when_much_still_has_to_go_then_it_waits_for_that(connected: World) -> None:
    connected.take(environment(4, generation=2, createNewServiceAccount=True))
    connected.take(resource_gone(5, ENVIRONMENT, "prod"))
    limit(connected, bytes_=700)
    connected.take(changed(6))
    assert is_refused(connected, "GitOpsDeployment", "web")
    removed(connected, 7, row(connected, "ClusterSecret"))
    connected.take(changed(8, version=8, epoch=2))
    assert connected.application() is not None


# Of what has to go, an engine needs no more than what it takes to find it


def test_environment_when_gone_then_its_credentials_are_not_kept(connected: World) -> None:
    connected.take(resource_gone(4, ENVIRONMENT, "prod"))
    held = row(connected, "ClusterSecret")
    assert held.desired == "absent"
    recipe = json.loads(held.manifest)["recipe"]
    assert "secret" not in recipe
    assert recipe["uid"] == "uid-prod"


@pytest.mark.parametrize("later", [True, False], ids=["still", "before-the-last-change"])
def test_environment_when_an_account_was_made_for_it_then_the_credentials_that_remove_it_are_kept(
    connected: World, later: bool
) -> None:
    connected.take(environment(4, generation=2, createNewServiceAccount=True))
    check(connected, 5)
    connected.take(environment(6, generation=3, createNewServiceAccount=later, namespaces=["a"]))
    connected.take(resource_gone(7, ENVIRONMENT, "prod"))
    assert json.loads(row(connected, "ClusterSecret").manifest)["recipe"]["secret"]["sealed"]


def test_credential_when_gone_then_its_login_is_not_kept(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    world.take(resource_gone(3, CREDENTIAL, "login"))
    held = row(world, "RepositorySecret")
    assert (held.desired, "secret" in json.loads(held.manifest)["recipe"]) == ("absent", False)


def test_environment_when_its_secret_comes_back_then_its_recipe_is_whole_again(connected: World) -> None:
    connected.take(resource_gone(4, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert row(connected, "ClusterSecret").desired == "absent"
    connected.take(secret(5))
    held = row(connected, "ClusterSecret")
    assert (held.desired, json.loads(held.manifest)["recipe"]["secret"]["sealed"]) == ("present", "sealed-kubeconfig-5")


def test_deployment_when_its_labels_are_long_then_they_count_among_its_bytes(world: World) -> None:
    """The planner keeps those that its kind declares."""
    limit(world, bytes_=1500)
    labels = {"labels": {f"appstudio.openshift.io/{number}": "x" * 60 for number in range(20)}}
    world.take(changed(1, metadata=labels))
    assert is_refused(world, "GitOpsDeployment", "web")
    world.take(changed(2, metadata={"labels": {}}))
    assert not is_refused(world, "GitOpsDeployment", "web")
