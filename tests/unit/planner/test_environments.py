"""Environments of a tenant: the recipes of their cluster secrets, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.messages import Checked
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.audit import forced_deletion
from tests.unit.planner.given import ENVIRONMENT, Failed, Removed, environment, resource_gone, secret
from tests.unit.planner.tenant import check, conditions, environment_id, manifest, row, rows, says
from tests.unit.planner.world import World


def test_environment_when_its_secret_is_there_then_a_recipe_for_a_cluster_secret_goes_out(world: World) -> None:
    world.take(environment(1, secret_type="managed-gitops.redhat.com/managed-environment"), secret(2))
    recipe = manifest(world, "ClusterSecret")["recipe"]
    assert recipe["server"] == f"https://cluster.example.com:6443?managedEnvironment={environment_id(world)}"
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
    assert (changes.engine, changes.plain_resources) == ((), ())


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


def test_environment_when_its_deletion_was_forced_then_the_audit_names_what_may_be_left_behind(
    connected: World,
) -> None:
    name = row(connected, "ClusterSecret").name
    connected.take(resource_gone(9, ENVIRONMENT, "prod"))
    says(connected, 10, Removed(forced=True), "ClusterSecret")
    (deleted,) = [known for known in connected.audit_records.values() if known.action == "delete"]
    assert (deleted.state, deleted.message) == ("Completed", forced_deletion(name))


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


def test_secret_when_it_is_deleted_then_what_was_made_of_it_goes(connected: World) -> None:
    connected.take(resource_gone(5, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert row(connected, "ClusterSecret").desired == "absent"
    assert conditions(connected, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][1] == "SecretNotFound"


# What agents find out counts for what they tried


def test_check_when_it_is_of_an_older_recipe_then_that_of_the_newest_stays(world: World) -> None:
    world.take(secret(1), environment(2))
    older = row(world, "ClusterSecret").digest
    world.take(secret(4))
    check(world, 5)
    for late in (
        Checked(older, "UnableToValidateClusterCredentials", "why"),
        Failed(older, permanent=True, message="no"),
    ):
        says(world, 6, late, "ClusterSecret")
        assert conditions(world, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][1] == "Succeeded"
    assert {known.state for known in world.audit_records.values()} == {"Completed"}


@pytest.mark.parametrize("change", [{"allowInsecureSkipTLSVerify": True}, {"namespaces": ["a"]}])
def test_environment_when_a_field_changes_then_the_recipe_does_and_its_name_stays(
    connected: World, change: dict[str, Any]
) -> None:
    before = row(connected, "ClusterSecret")
    connected.take(environment(9, generation=2, **change))
    after = row(connected, "ClusterSecret")
    assert after.name == before.name
    recipes = [json.loads(each.manifest)["recipe"] for each in (before, after)]
    changed_fields = {name for name in recipes[0] if recipes[0][name] != recipes[1][name]}
    assert changed_fields == ({"insecure"} if "allowInsecureSkipTLSVerify" in change else {"namespaces"})
