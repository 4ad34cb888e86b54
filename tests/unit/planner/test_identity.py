"""A name is not an identity: made, deleted and made again under one name, while the other end is away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    SYNC_RUN,
    Checked,
    Removed,
    changed,
    credential,
    environment,
    gone,
    observed,
    resource_gone,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL, REMOTE, conditions, finish, manifest, operation, rows
from tests.unit.planner.world import World

FIRST, SECOND = "https://first.example.com", "https://second.example.com"


def cluster(world: World, url: str) -> EngineRow:
    """The cluster secret of the environment with this URL."""
    (found,) = [row for row in rows(world, "ClusterSecret") if json.loads(row.manifest)["recipe"]["apiURL"] == url]
    return found


def says(world: World, second: int, about: EngineRow, event: Any) -> None:
    world.take(observed(second, event, instance=about.engine_instance_id, kind=about.kind, name=about.name))


def works(world: World, second: int, url: str) -> None:
    says(world, second, cluster(world, url), Checked(cluster(world, url).digest, "Succeeded", ""))


def destination(world: World, uid: str = "uid-1") -> str:
    application = world.application(uid)
    assert application is not None
    return str(json.loads(application.manifest)["spec"]["destination"]["name"])


def listed(world: World) -> set[str]:
    """Clusters that the AppProject lists."""
    return {item["name"] for item in manifest(world, "AppProject")["spec"]["destinations"]} - {"in-cluster"}


@pytest.fixture
def away(world: World) -> World:
    """An environment that is deleted, whose cluster cannot be reached to clean up."""
    world.take(secret(1), environment(2, uid="uid-first", apiURL=FIRST))
    works(world, 3, FIRST)
    world.take(resource_gone(4, ENVIRONMENT, "prod", "uid-first"))
    assert cluster(world, FIRST).desired == "absent"
    return world


@pytest.fixture
def twice(away: World) -> World:
    """A second one of its name, which a deployment uses, and which is deleted too."""
    away.take(environment(5, uid="uid-second", apiURL=SECOND))
    works(away, 6, SECOND)
    away.take(changed(7, content=REMOTE))
    assert destination(away) == cluster(away, SECOND).name
    away.take(resource_gone(8, ENVIRONMENT, "prod", "uid-second"))
    return away


def test_deployment_when_its_environment_goes_then_it_stays_with_that_and_not_with_an_older_one_of_its_name(
    twice: World,
) -> None:
    second = cluster(twice, SECOND)
    assert destination(twice) == second.name
    says(twice, 9, second, Removed(forced=False))
    assert destination(twice) == ""
    assert second.name not in listed(twice)


def test_deployment_when_the_older_environment_s_cluster_comes_back_then_nothing_goes_there(twice: World) -> None:
    says(twice, 9, cluster(twice, SECOND), Removed(forced=False))
    twice.take(changed(10, version=10, epoch=2, content=REMOTE))
    assert destination(twice) == ""
    says(twice, 11, cluster(twice, FIRST), Removed(forced=False))
    assert (destination(twice), listed(twice)) == ("", set())


def test_deployment_when_made_while_only_environments_that_are_gone_bear_the_name_then_it_goes_nowhere(
    away: World,
) -> None:
    away.take(changed(5, content=REMOTE))
    assert away.application() is None
    assert conditions(away, "GitOpsDeployment", "web")["ErrorOccurred"][0] == "True"


def test_deployment_when_its_environment_is_made_anew_then_it_stays_until_the_new_one_works(world: World) -> None:
    world.take(secret(1), environment(2, uid="uid-first", apiURL=FIRST))
    works(world, 3, FIRST)
    world.take(changed(4, content=REMOTE))
    world.take(resource_gone(5, ENVIRONMENT, "prod", "uid-first"), environment(6, uid="uid-second", apiURL=SECOND))
    assert destination(world) == cluster(world, FIRST).name
    works(world, 7, SECOND)
    assert destination(world) == cluster(world, SECOND).name


def test_deployment_when_deleted_after_its_environment_was_made_anew_then_it_is_removed_from_where_it_was(
    world: World,
) -> None:
    world.take(secret(1), environment(2, uid="uid-first", apiURL=FIRST))
    works(world, 3, FIRST)
    world.take(changed(4, content=REMOTE))
    first = cluster(world, FIRST).name
    world.take(resource_gone(5, ENVIRONMENT, "prod", "uid-first"), environment(6, uid="uid-second", apiURL=SECOND))
    world.take(gone(7))
    works(world, 8, SECOND)
    application = world.application()
    assert application is not None
    assert (application.desired, destination(world)) == ("absent", first)


def test_environment_when_a_report_on_its_predecessor_comes_late_then_it_is_not_taken_for_its_own(away: World) -> None:
    first = cluster(away, FIRST)
    away.take(environment(5, uid="uid-second", apiURL=SECOND))
    says(away, 6, first, Checked(first.digest, "Succeeded", ""))
    assert conditions(away, ENVIRONMENT, "prod")["ConnectionInitializationSucceeded"][1] == "Checking"
    says(away, 7, first, Removed(forced=False))
    assert cluster(away, SECOND).desired == "present"


def test_credential_when_made_anew_while_the_engine_is_away_then_each_has_its_own_secret(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2, uid="uid-first"))
    (first,) = rows(world, "RepositorySecret")
    world.take(resource_gone(3, CREDENTIAL, "login", "uid-first"), credential(4, uid="uid-second"))
    assert sorted(row.desired for row in rows(world, "RepositorySecret")) == ["absent", "present"]
    says(world, 5, first, Removed(forced=False))
    (second,) = rows(world, "RepositorySecret")
    assert (second.desired, second.name != first.name) == ("present", True)


def test_secret_when_made_anew_with_other_content_then_only_that_is_in_force(world: World) -> None:
    world.take(secret(1), environment(2, uid="uid-first", apiURL=FIRST))
    works(world, 3, FIRST)
    world.take(resource_gone(4, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    world.take(secret(5))
    recipe = json.loads(cluster(world, FIRST).manifest)["recipe"]
    assert recipe["secret"]["sealed"] == "sealed-kubeconfig-5"


def test_sync_run_when_its_deployment_is_made_anew_before_it_started_then_it_does_not_sync_the_new_one(
    world: World,
) -> None:
    world.take(changed(1, content=MANUAL), sync_run(2, "busy", target=("uid-1", 1)))
    world.take(sync_run(3, "waiting", target=("uid-1", 1)))
    world.take(gone(4), changed(5, uid="uid-2", content=MANUAL))
    assert rows(world, "SyncOperation") == []
    status, _, message = conditions(world, SYNC_RUN, "waiting")["ErrorOccurred"]
    assert status == "True"
    assert "deleted" in message


def test_sync_run_when_made_before_its_deployment_then_it_means_the_first_one_that_is_seen(world: World) -> None:
    world.take(sync_run(1, "early"))
    world.take(changed(2, content=spec(type="manual", source={"path": "/"})))
    assert operation(world, "early")["phase"] == "Waiting"
    world.take(gone(3))
    world.take(changed(4, uid="uid-2", content=MANUAL))
    assert rows(world, "SyncOperation") == []
    status, _, message = conditions(world, SYNC_RUN, "early")["ErrorOccurred"]
    assert (status, "deleted" in message) == ("True", True)


def test_sync_run_when_its_first_deployment_is_made_anew_in_one_batch_then_it_does_not_sync_the_new_one(
    world: World,
) -> None:
    world.take(sync_run(1, "early"))
    world.take(changed(2, content=spec(type="manual", source={"path": "/"})))
    world.take(gone(3), changed(4, uid="uid-2", content=MANUAL))
    assert rows(world, "SyncOperation") == []


def test_sync_run_when_made_between_two_deployments_of_a_name_then_it_means_the_second(world: World) -> None:
    """The watcher found none when the run was made; that the first is gone is told later."""
    world.take(changed(1, content=spec(type="manual", source={"path": "/"})))
    world.take(sync_run(3, "between"))
    world.take(gone(2))
    world.take(changed(4, uid="uid-2", content=MANUAL))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-between"


def test_sync_run_when_it_runs_while_its_deployment_is_made_anew_then_it_ends_with_the_old_one(world: World) -> None:
    world.take(changed(1, content=MANUAL), sync_run(2, target=("uid-1", 1)))
    world.take(changed(3, uid="uid-2", content=MANUAL))
    assert rows(world, "SyncOperation") == []
    assert operation(world, "now")["phase"] == "Error"


def test_sync_run_when_made_anew_under_its_name_then_the_new_one_runs_once(world: World) -> None:
    world.take(changed(1, content=MANUAL), sync_run(2, uid="uid-now", target=("uid-1", 1)))
    finish(world, 3, "now")
    world.take(resource_gone(4, SYNC_RUN, "now"), sync_run(5, uid="uid-again", target=("uid-1", 1)))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-again"
    world.take(sync_run(2, uid="uid-now", version=2, epoch=9, target=("uid-1", 1)))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-again"


def test_namespace_when_made_anew_while_the_engine_is_away_then_what_was_in_it_is_still_removed(world: World) -> None:
    world.take(changed(1))
    world.take(gone(2))
    world.take(changed(3, uid="uid-2"))
    old, new = world.application(), world.application("uid-2")
    assert old is not None
    assert new is not None
    assert (old.desired, new.desired) == ("absent", "present")
    says(world, 4, old, Removed(forced=False))
    assert [row.name for row in rows(world, "Application")] == [new.name]
