"""What a forced deletion may have left behind is told on the next deployment of the name, until that has it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from services.common.messages import Removed
from services.kinds.gitops_deployment.catalogue import LEFT_BEHIND
from services.kinds.gitops_deployment.left_behind import MAX_BYTES, MOST_NAMED, SHOWN_FOR
from services.planner.domain.events import Due, Event
from services.planner.domain.ids import resource_id
from services.planner.domain.steps.forced_deletions import MOST_KEPT
from tests.unit.planner import world as world_module
from tests.unit.planner.given import (
    NAMESPACE,
    WORKSPACE,
    at,
    changed,
    environment,
    gone,
    in_namespace,
    observed,
    secret,
    spec,
    status,
)
from tests.unit.planner.tenant import REMOTE, check, conditions
from tests.unit.planner.world import World

TYPE = "ResourcesLeftBehind"
SETTINGS = {"kind": "ConfigMap", "namespace": NAMESPACE, "name": "settings"}
WEB = {"group": "apps", "kind": "Deployment", "namespace": NAMESPACE, "name": "web"}
RESOLVED = ("False", "ResourcesLeftBehindResolved", "")


def says(world: World, second: int, event: Any, uid: str = "uid-1") -> None:
    (tenant,) = [each for each in world.tenants.values() if not each.is_former]
    world.take(observed(second, event, instance=tenant.engine_instance_id, name=f"gitopsdepl-{uid}"))


def shows(world: World, second: int, *resources: dict[str, str], uid: str = "uid-1") -> None:
    says(world, second, status(second, resources=list(resources)), uid)


def told(world: World, name: str = "web") -> tuple[str, str, str] | None:
    return conditions(world, "GitOpsDeployment", name).get(TYPE)


def look(world: World, when: int, uid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clock asks for."""
    monkeypatch.setattr(world_module, "NOW", at(when))
    world.take(Event(Due(WORKSPACE, NAMESPACE, resource_id(WORKSPACE, uid)), 0, ""))


@pytest.fixture
def forced(world: World) -> World:
    """A deployment of two resources was deleted, by force; nothing of it exists any more."""
    world.take(changed(1))
    shows(world, 2, SETTINGS, WEB)
    world.take(gone(3))
    says(world, 4, Removed(forced=True))
    return world


def test_deployment_when_a_former_one_was_removed_by_force_then_it_tells_what_was_seen_last(forced: World) -> None:
    forced.take(changed(10, uid="uid-2"))
    shown = told(forced)
    assert shown is not None
    assert shown[:2] == ("True", TYPE)
    assert shown[2].endswith("in this namespace ConfigMap team-a/settings, Deployment.apps team-a/web")


def test_deployment_when_it_shows_some_of_them_then_it_tells_of_the_others_until_it_has_shown_all(
    forced: World,
) -> None:
    forced.take(changed(10, uid="uid-2"))
    shows(forced, 11, SETTINGS, uid="uid-2")
    assert str(told(forced)).count("team-a/") == 1
    shows(forced, 12, WEB, uid="uid-2")
    assert (told(forced), forced.forced_deletions) == (RESOLVED, {})


def test_deployment_when_it_is_there_before_the_former_one_is_removed_by_force_then_it_tells_from_then_on(
    world: World,
) -> None:
    world.take(changed(1))
    shows(world, 2, SETTINGS, WEB)
    world.take(changed(3, uid="uid-2"))
    shows(world, 4, WEB, uid="uid-2")
    says(world, 5, Removed(forced=True))
    shown = told(world)
    assert shown is not None
    assert shown[2].endswith("in this namespace ConfigMap team-a/settings")


def test_deployment_when_it_goes_to_another_environment_then_it_takes_nothing_over_there(world: World) -> None:
    world.take(secret(1), environment(2))
    check(world, 3)
    world.take(changed(4, content=REMOTE))
    shows(world, 5, SETTINGS)
    world.take(gone(6))
    says(world, 7, Removed(forced=True))
    world.take(changed(8, uid="uid-2"))
    shows(world, 9, SETTINGS, uid="uid-2")
    assert "in environment prod ConfigMap team-a/settings" in str(told(world))
    world.take(changed(10, uid="uid-2", generation=2, content=REMOTE))
    assert told(world) == RESOLVED


def test_forced_deletion_when_a_newer_spec_waits_for_another_environment_then_it_names_the_one_deployed_to(
    world: World,
) -> None:
    world.take(secret(1), environment(2))
    check(world, 3)
    world.take(changed(4, content=REMOTE))
    shows(world, 5, SETTINGS)
    world.take(changed(6, generation=2, content=spec(destination={"environment": "missing", "namespace": "web"})))
    world.take(gone(7))
    says(world, 8, Removed(forced=True))
    assert [row.environment for row in world.forced_deletions.values()] == ["prod"]
    assert any("in environment prod;" in row.message for row in world.audit_records.values())


@pytest.mark.parametrize(
    ("name", "forced", "seen"),
    [("other", True, True), ("web", False, True), ("web", True, False)],
    ids=["another name", "removed in time", "nothing seen"],
)
def test_deployment_when_nothing_of_a_former_one_may_be_left_then_it_tells_nothing(
    world: World, name: str, forced: bool, seen: bool
) -> None:
    world.take(changed(1))
    shows(world, 2, *([SETTINGS] if seen else []))
    world.take(gone(3))
    says(world, 4, Removed(forced=forced))
    world.take(changed(10, name, uid="uid-2"))
    shows(world, 11, WEB, uid="uid-2")
    assert told(world, name) is None


def test_tenant_when_nothing_else_of_it_is_left_then_it_stays_until_the_forced_deletion_is_forgotten(
    forced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project,) = forced.engine.values()
    says_of_project = observed(
        5, Removed(forced=False), instance=project.engine_instance_id, kind=project.kind, name=project.name
    )
    forced.take(says_of_project)
    assert (forced.engine, len(forced.tenants), len(forced.forced_deletions)) == ({}, 1, 1)
    seconds = int(SHOWN_FOR.total_seconds())
    look(forced, 4 + seconds - 1, "uid-1", monkeypatch)
    assert len(forced.forced_deletions) == 1
    look(forced, 4 + seconds, "uid-1", monkeypatch)
    assert (forced.tenants, forced.forced_deletions) == ({}, {})


def test_deployment_when_time_has_passed_then_it_tells_no_more(forced: World, monkeypatch: pytest.MonkeyPatch) -> None:
    forced.take(changed(10, uid="uid-2"))
    look(forced, 4 + int(SHOWN_FOR.total_seconds()), "uid-1", monkeypatch)
    assert (told(forced), forced.forced_deletions) == (RESOLVED, {})


def test_forced_deletion_when_a_custom_resource_still_waits_then_its_own_row_does_not_concern_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.take(changed(1))
    shows(world, 2, SETTINGS)
    world.take(changed(3, deleting=True, finalizers=("example.com/other",)))
    says(world, 4, Removed(forced=True))
    assert told(world) is None
    look(world, 4 + int(SHOWN_FOR.total_seconds()), "uid-1", monkeypatch)
    assert world.forced_deletions == {}


def test_namespace_when_it_is_made_again_then_the_newcomer_is_told_nothing(world: World) -> None:
    former, latter = ("former", 1000), ("latter", 60_000)
    world.take(*in_namespace(former, changed(1)))
    shows(world, 2, SETTINGS)
    world.take(*in_namespace(former, changed(3, "api", uid="uid-3")))
    says(world, 4, status(4, resources=[WEB]), "uid-3")
    world.take(gone(5))
    says(world, 6, Removed(forced=True))
    (instance,) = {each.engine_instance_id for each in world.tenants.values()}
    world.take(*in_namespace(latter, changed(70, uid="uid-2"), changed(71, "api", uid="uid-4")))
    world.take(observed(80, Removed(forced=True), instance=instance, name="gitopsdepl-uid-3"))
    assert world.forced_deletions == {}
    assert not any(TYPE in row.status for row in world.workspace.values())


def test_forced_deletions_when_there_are_many_then_the_newest_are_kept(world: World) -> None:
    world.take(changed(1, "stays", uid="uid-stays"))
    for number in range(MOST_KEPT + 2):
        name, uid = f"web-{number}", f"uid-{number}"
        world.take(changed(10 * number + 2, name, uid=uid))
        shows(world, 10 * number + 3, SETTINGS, uid=uid)
        world.take(gone(10 * number + 4, name, uid=uid))
        says(world, 10 * number + 5, Removed(forced=True), uid)
    assert {each.name for each in world.forced_deletions.values()} == {f"web-{n}" for n in range(2, MOST_KEPT + 2)}


def test_forced_deletion_when_very_much_was_seen_then_what_is_kept_and_told_of_it_is_bounded(world: World) -> None:
    many = [WEB | {"name": f"{number:03}-{'x' * 200}"} for number in range(200)]
    world.take(changed(1))
    shows(world, 2, *many)
    world.take(gone(3))
    says(world, 4, Removed(forced=True))
    (row,) = world.forced_deletions.values()
    kept = json.loads(row.resources)
    assert len(row.resources) <= MAX_BYTES + 2
    assert len(kept) < row.total == 200
    world.take(changed(10, uid="uid-2"))
    assert str(told(world)).endswith(f" and {200 - MOST_NAMED} more')")
    shows(world, 11, *many[: len(kept)], uid="uid-2")
    assert told(world) == RESOLVED


def test_forced_deletion_when_it_is_kept_then_for_as_long_as_users_are_told(forced: World) -> None:
    (row,) = forced.forced_deletions.values()
    assert row.due_at - at(4) == timedelta(days=7)
    assert "seven days" in LEFT_BEHIND.remedy
