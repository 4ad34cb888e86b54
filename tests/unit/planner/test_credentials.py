"""Repository credentials of a tenant: the recipes, the AppProject and what they say."""

from __future__ import annotations

from services.planner.domain.events import Event
from tests.unit.planner.given import CREDENTIAL, Failed, Removed, changed, credential, resource, resource_gone, secret
from tests.unit.planner.tenant import check, conditions, manifest, row, says
from tests.unit.planner.world import World


def test_credential_when_its_secret_is_there_then_only_the_tenants_project_may_use_it(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    recipe = manifest(world, "RepositorySecret")["recipe"]
    assert recipe["project"] == row(world, "AppProject").name
    assert recipe["repository"] == "https://git.example.com/team-a/private.git"
    assert manifest(world, "AppProject")["spec"]["sourceRepos"] == ["https://git.example.com/team-a/private"]


def test_credential_when_its_secret_is_missing_then_the_project_lists_its_repository_all_the_same(world: World) -> None:
    world.take(changed(1), credential(2))
    assert manifest(world, "AppProject")["spec"]["sourceRepos"] == [
        "https://git.example.com/team-a/config",
        "https://git.example.com/team-a/private",
    ]


def test_credential_when_checked_then_it_has_its_three_conditions(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    check(world, 3, "RepositoryCredentialUpToDate", "RepositorySecret")
    assert {type_: state[0] for type_, state in conditions(world, CREDENTIAL, "login").items()} == {
        "ErrorOccurred": "False",
        "ValidRepositoryCredential": "True",
        "ValidRepositoryURL": "True",
    }


def test_credential_when_its_corrected_secret_is_found_to_work_then_it_says_so(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    check(world, 3, "InvalidCredentials", "RepositorySecret")
    world.take(secret(4, "login", "repository-credential"))
    recipe = manifest(world, "RepositorySecret")["recipe"]
    check(world, 5, "RepositoryCredentialUpToDate", "RepositorySecret")
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][0] == "False"
    assert manifest(world, "RepositorySecret")["recipe"] == recipe


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


def test_credential_when_the_engine_refuses_its_secret_then_the_reason_is_one_of_its_own(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    refused = Failed(row(world, "RepositorySecret").digest, permanent=True, message="no")
    says(world, 3, refused, "RepositorySecret")
    assert {state[1] for state in conditions(world, CREDENTIAL, "login").values()} == {"KubernetesError"}


def resealed(second: int, version: int) -> Event:
    """What an operator's command read from a row at that version."""
    content = {"type": "managed-gitops.redhat.com/repository-credential", "sealed": "anew", "keyId": "k2"}
    resealed = {**content, "resealed": True}
    return resource(second, "Secret", "login", resealed, uid="uid-secret-login", generation=0, version=version)


def test_secret_when_it_went_or_changed_before_it_was_sealed_anew_then_that_is_too_late(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2), secret(3, "login", "repository-credential"))
    world.take(resealed(4, version=1))
    assert manifest(world, "RepositorySecret")["recipe"]["secret"]["sealed"] == "sealed-login-3"
    world.take(resource_gone(5, "Secret", "login", "uid-secret-login"))
    world.take(resealed(6, version=3))
    assert [row for row in world.resources.values() if row.kind == "Secret"] == []


def test_secret_when_it_is_sealed_anew_then_the_recipe_has_the_new_text(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2), resealed(3, version=1))
    assert manifest(world, "RepositorySecret")["recipe"]["secret"]["sealed"] == "anew"
