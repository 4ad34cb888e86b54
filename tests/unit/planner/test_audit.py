"""The audit of changes that wait: their records stay open until they are in force, or can never be."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.messages import Removed
from services.kinds.gitops_deployment.catalogue import ENVIRONMENT_UNUSABLE_ON_CREATE
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain import plan as plan_module
from services.planner.domain.audit import PLACEMENT, REISSUE_ACTOR, RESTORED_ACTOR
from services.planner.domain.events import Event
from services.planner.rows.audit import AuditRecord
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    Applied,
    at,
    changed,
    environment,
    gone,
    observed,
    resource,
    resource_gone,
    secret,
    spec,
)
from tests.unit.planner.tenant import REMOTE, check, row
from tests.unit.planner.world import FLEET, World

SECRET_TYPE = "managed-gitops.redhat.com/managed-environment"


def record(world: World, kind: str, name: str, generation: int = 1) -> AuditRecord:
    wanted = (kind, name, generation)
    (found,) = [each for each in world.audit_records.values() if (each.kind, each.name, each.generation) == wanted]
    return found


def of_deployment(world: World, name: str = "web", generation: int = 1) -> tuple[str, str]:
    found = record(world, GITOPS_DEPLOYMENT.kind, name, generation)
    return (found.state, found.message)


def remote(second: int, generation: int = 1) -> Event:
    return changed(second, generation=generation, content=REMOTE)


def applied(world: World, second: int) -> None:
    """An agent has applied the one Application that there is."""
    application = row(world, "Application")
    report = Applied(application.digest)
    world.take(observed(second, report, instance=application.engine_instance_id, name=application.name))


def test_deployment_when_its_environment_is_not_there_then_its_record_waits_until_it_is_applied(world: World) -> None:
    world.take(remote(1))
    assert of_deployment(world) == ("Waiting", ENVIRONMENT_UNUSABLE_ON_CREATE.message)
    world.take(secret(2), environment(3, secret_type=SECRET_TYPE))
    check(world, 4)
    assert of_deployment(world) == ("Waiting", "")
    applied(world, 5)
    assert of_deployment(world) == ("Completed", "")


def test_deployment_when_there_is_no_room_then_its_record_waits_until_there_is(world: World) -> None:
    world.policy = replace(world.policy, limits=REGISTRY.limits({GITOPS_DEPLOYMENT.kind: 1}))
    world.take(changed(1), changed(2, "api", uid="uid-2"))
    state, message = of_deployment(world, "api")
    assert (state, message.partition(":")[0]) == ("Waiting", "quota exceeded")


def test_deployment_when_its_spec_can_never_be_had_then_its_record_has_failed(world: World) -> None:
    world.take(changed(1, content=spec(source={"path": "/"})))
    state, message = of_deployment(world)
    assert (state, "cannot be '/'" in message) == ("Failed", True)


def test_deployment_when_its_environment_goes_later_then_the_record_of_its_change_stays_completed(
    connected: World,
) -> None:
    connected.take(remote(5))
    applied(connected, 6)
    connected.take(resource_gone(7, ENVIRONMENT, "prod"))
    assert of_deployment(connected) == ("Completed", "")


def test_deployment_when_it_is_deleted_while_it_waits_then_the_deletion_says_nothing_of_that(world: World) -> None:
    world.take(remote(1))
    world.take(gone(2))
    (deletion,) = [each for each in world.audit_records.values() if each.action == "delete"]
    assert (deletion.state, deletion.message) == ("Completed", "")


def reissued(second: int, source_path: str) -> Event:
    """A former spec, as an operator's command tells it: of the version that the resource has by now."""
    return changed(second, version=1, content=spec(source={"path": source_path}), actor=REISSUE_ACTOR)


def reissues(world: World) -> list[AuditRecord]:
    return [each for each in world.audit_records.values() if each.action == "reissue"]


def test_spec_when_an_operator_puts_a_former_one_in_force_then_each_time_has_a_record_of_its_own(world: World) -> None:
    world.take(changed(1))
    before = record(world, GITOPS_DEPLOYMENT.kind, "web")
    world.take(reissued(2, "former"))
    world.take(reissued(3, "older"))
    first, second = reissues(world)
    assert [(each.created_at, each.generation, each.actor) for each in (first, second)] == [
        (at(2), 1, REISSUE_ACTOR),
        (at(3), 1, REISSUE_ACTOR),
    ]
    assert {first.state, second.state} == {"Completed"}
    assert world.audit_records[before.id] == before


def test_spec_when_the_command_that_puts_it_in_force_comes_again_then_nothing_more_is_recorded(world: World) -> None:
    world.take(changed(1))
    world.take(reissued(2, "former"))
    expected = dict(world.audit_records)
    world.take(reissued(2, "former"))
    world.take(changed(4, version=4))  # the watcher lists the resource: no change of it, nor an operator's
    assert world.audit_records == expected


def test_environment_when_its_secret_is_missing_then_its_record_waits_until_the_check(world: World) -> None:
    world.take(environment(1))
    found = record(world, ENVIRONMENT, "prod")
    assert (found.state, found.message.partition(":")[0]) == ("Waiting", "SecretNotFound")
    world.take(secret(2))
    check(world, 3)
    assert record(world, ENVIRONMENT, "prod").state == "Completed"


def test_environment_when_it_names_no_secret_then_its_record_has_failed(world: World) -> None:
    world.take(environment(1, secret_name=""))
    assert record(world, ENVIRONMENT, "prod").state == "Failed"


def test_environment_when_its_secret_is_on_its_way_then_its_record_waits(world: World) -> None:
    world.take(environment(1, secret_type=SECRET_TYPE))
    assert record(world, ENVIRONMENT, "prod").state == "Waiting"


def test_environment_when_there_is_no_room_then_its_record_waits(world: World) -> None:
    world.policy = replace(world.policy, limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 1}))
    world.take(environment(1), environment(2, "more"))
    assert record(world, ENVIRONMENT, "more").state == "Waiting"


def test_credential_when_its_url_is_refused_then_its_record_has_failed(world: World) -> None:
    world.take(resource(1, CREDENTIAL, "login", {"repository": "ftp://example.com/a", "secret": "login"}))
    assert record(world, CREDENTIAL, "login").state == "Failed"


def restored(second: int, generation: int = 1, **more: Any) -> Event:
    """From the first list after its API server was restored: versions start lower, the epoch is a newer one."""
    return changed(second, version=1, generation=generation, epoch=second, **more)


def history(world: World, name: str = "web") -> list[tuple[datetime, int, str, str]]:
    """The records of a resource in the order of time: what an operator is shown."""
    found = [each for each in world.audit_records.values() if each.name == name]
    return sorted((each.created_at, each.generation, each.action, each.actor) for each in found)


CHANGED = (at(1), 1, "create", "kubectl"), (at(2), 2, "update", "kubectl")


@pytest.fixture
def edited(world: World) -> World:
    """A deployment has two generations, and both are in force or were."""
    for second in (1, 2):
        world.take(changed(second, generation=second))
    applied(world, 3)
    return world


def test_deployment_when_it_is_back_at_an_older_generation_then_that_has_a_record_of_its_own(edited: World) -> None:
    edited.take(restored(4, content=spec(source={"path": "older"})))
    assert history(edited) == [*CHANGED, (at(4), 1, "update", RESTORED_ACTOR)]


def test_deployment_when_what_is_restored_is_applied_then_its_own_record_is_completed(edited: World) -> None:
    edited.take(restored(4, content=spec(source={"path": "older"})))
    (found,) = [each for each in edited.audit_records.values() if each.actor == RESTORED_ACTOR]
    assert found.state == "Waiting"
    applied(edited, 5)
    assert edited.audit_records[found.id].state == "Completed"


def test_deployment_when_users_change_what_was_restored_then_each_change_is_recorded_once_more(edited: World) -> None:
    edited.take(restored(4))
    edited.take(changed(5, generation=2, epoch=4))
    assert history(edited)[2:] == [(at(4), 1, "update", RESTORED_ACTOR), (at(5), 2, "update", "kubectl")]
    assert history(edited)[:2] == [*CHANGED]


def test_deployment_when_a_list_shows_it_again_as_it_is_then_nothing_is_recorded(edited: World) -> None:
    edited.take(restored(4))
    expected = history(edited)
    edited.take(changed(5, version=1, epoch=5))
    assert history(edited) == expected


@pytest.mark.parametrize("is_left", [True, False], ids=["while the engine has it", "when nothing is left of it"])
def test_deployment_when_it_is_back_after_its_deletion_then_its_return_is_recorded_and_the_next_deletion(
    edited: World, is_left: bool
) -> None:
    instance = row(edited, "Application").engine_instance_id
    edited.take(gone(4))
    if not is_left:
        edited.take(observed(5, Removed(forced=False), instance=instance))
        assert not edited.deployments
    edited.take(restored(6, generation=2))
    edited.take(gone(7))
    assert history(edited) == [
        *CHANGED,
        (at(4), 2, "delete", ""),
        (at(6), 2, "create", RESTORED_ACTOR),
        (at(7), 2, "delete", ""),
    ]


actions = st.tuples(st.sampled_from(["edit", "delete", "restore"]), st.integers(1, 3))


@given(st.lists(actions, max_size=12), st.booleans())
def test_changes_when_an_api_server_is_restored_again_and_again_then_each_has_one_record_and_keeps_it(
    story: list[tuple[str, int]], is_removed: bool
) -> None:
    """A backup may have any generation that there was, of what is there or is gone."""
    world, generation, newest, epoch, expected = World(), 1, 1, 1, [(at(0), 1, "create", "kubectl")]
    world.take(changed(0))
    for second, (action, number) in enumerate(story, start=1):
        before = generation
        if action == "edit" and generation:
            generation, newest = generation + 1, max(newest, generation + 1)
            world.take(changed(second, generation=generation, epoch=epoch))
            expected.append((at(second), generation, "update", "kubectl"))
        elif action == "delete" and generation:
            generation = 0
            world.take(gone(second))
            expected.append((at(second), before, "delete", ""))
        elif action == "restore":
            generation, epoch = min(number, newest), second + 1
            world.take(changed(second, version=1, generation=generation, epoch=epoch))
            if before != generation:
                actor = RESTORED_ACTOR if generation < before or not before else "kubectl"
                expected.append((at(second), generation, "update" if before else "create", actor))
        if is_removed and not generation:
            world.take(*(observed(second, Removed(forced=False), instance=each.id) for each in FLEET))
    assert history(world) == expected


def test_environment_when_it_is_back_at_an_older_generation_then_that_has_a_record_of_its_own(world: World) -> None:
    world.take(environment(1))
    world.take(environment(2, generation=2))
    world.take(environment(3, version=1, epoch=3))
    assert history(world, "prod") == [
        (at(1), 1, "create", "kubectl"),
        (at(2), 2, "update", "kubectl"),
        (at(3), 1, "update", RESTORED_ACTOR),
    ]


def placed(world: World) -> list[tuple[str, str, str, datetime]]:
    records = [each for each in world.audit_records.values() if each.kind == PLACEMENT]
    return [(each.namespace, each.name, each.message, each.created_at) for each in records]


def test_tenant_when_it_is_placed_first_then_the_audit_says_where_and_since_when_and_no_more_later() -> None:
    world = World(fleet=[FLEET[0]])
    world.take(changed(1))
    world.take(changed(2, generation=2), changed(3, "api", uid="uid-2"))
    assert placed(world) == [("team-a", FLEET[0].id, f"placed on {FLEET[0].id}", at(1))]


def test_tenant_when_a_rule_fails_on_it_at_once_then_the_audit_says_where_it_was_placed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(fleet=[FLEET[0]])
    with monkeypatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        world.take(changed(1))
    assert [name for _, name, *_ in placed(world)] == [FLEET[0].id]
    world.take(changed(2, generation=2))
    assert len(placed(world)) == 1


def test_tenant_when_it_is_forgotten_and_comes_again_then_it_is_placed_a_second_time() -> None:
    world = World(fleet=[FLEET[0]])
    world.take(environment(1))
    world.take(resource_gone(2, MANAGED_ENVIRONMENT.kind, "prod"))
    assert world.tenants == {}
    world.take(environment(3))
    assert [at_ for *_, at_ in placed(world)] == [at(1), at(3)]


def test_tenant_when_there_is_no_instance_for_it_then_nothing_says_that_it_was_placed() -> None:
    world = World(fleet=[])
    world.take(changed(1))
    assert placed(world) == []
