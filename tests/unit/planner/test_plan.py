"""The life of a GitOpsDeployment, batch by batch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.audit import forced_deletion
from services.planner.domain.changes import Changes
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.rows.audit import AuditRecord
from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import (
    SYNCED,
    Applied,
    Failed,
    Removed,
    at,
    changed,
    environment,
    gone,
    observed,
    resync,
    secret,
    spec,
    status,
    traceparent,
)
from tests.unit.planner.tenant import REMOTE, check
from tests.unit.planner.world import World

KEY = ("local", "team-a", "GitOpsDeployment", "web")
NOTHING = Changes()


@pytest.fixture
def deployed(world: World) -> World:
    """One deployment, applied and synced."""
    world.take(changed(1))
    world.take(engine_says(world, 2, Applied(application(world).digest)), engine_says(world, 3, status(sync=SYNCED)))
    return world


def application(world: World, uid: str = "uid-1") -> EngineRow:
    row = world.application(uid)
    assert row is not None
    return row


def project(world: World) -> EngineRow:
    row = world.project()
    assert row is not None
    return row


def engine_says(world: World, second: int, event: Any, uid: str = "uid-1") -> Any:
    (instance,) = {tenant.engine_instance_id for tenant in world.tenants.values()}
    return observed(second, event, instance=instance, name=f"gitopsdepl-{uid}")


def project_says(world: World, second: int, event: Any) -> Any:
    row = project(world)
    return observed(second, event, instance=row.engine_instance_id, kind="AppProject", name=row.name)


def shown(world: World) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(world.workspace[KEY].status)
    return parsed


def condition(world: World, type_: str = "ErrorOccurred") -> dict[str, Any]:
    (found,) = [condition for condition in shown(world).get("conditions", []) if condition["type"] == type_]
    return dict(found)


def operation(world: World, action: str) -> AuditRecord:
    (found,) = [operation for operation in world.resources_audited if operation.action == action]
    return found


# Creation and change


def test_deployment_when_created_then_project_and_application_follow_in_this_order(world: World) -> None:
    changes = world.take(changed(1))
    assert [(row.kind, row.wave, row.desired) for row in changes.engine] == [
        ("AppProject", 0, "present"),
        ("Application", 1, "present"),
    ]
    assert {row.lane for row in changes.engine} == {project(world).name}


def test_deployment_when_created_then_its_rows_carry_the_time_and_trace_of_the_change(world: World) -> None:
    changes = world.take(changed(7))
    assert {(row.seen_at, row.trace_id) for row in changes.engine} == {(at(7), traceparent(7))}


def test_deployment_when_created_then_nothing_is_shown_yet(world: World) -> None:
    assert world.take(changed(1)).workspace == ()


def test_deployment_when_seen_again_unchanged_then_only_the_sighting_is_written(deployed: World) -> None:
    changes = deployed.take(changed(1, epoch=5))
    assert changes == NOTHING._replace(sightings=changes.sightings)
    assert [seen.epoch for seen in changes.sightings] == [5]


def test_deployment_when_changed_then_the_new_manifest_is_written_and_the_project_follows(deployed: World) -> None:
    content = spec(source={"repoURL": "https://git.example.com/other"})
    changes = deployed.take(changed(10, generation=2, content=content))
    assert [row.kind for row in changes.engine] == ["AppProject", "Application"]
    assert json.loads(project(deployed).manifest)["spec"]["sourceRepos"] == ["https://git.example.com/other"]


def test_event_when_late_then_it_changes_nothing(deployed: World) -> None:
    deployed.take(changed(10, generation=2, content=spec(source={"path": "new"})))
    assert deployed.take(changed(5, generation=1)) == NOTHING


def test_event_when_versions_start_again_under_a_newer_epoch_then_it_counts(deployed: World) -> None:
    deployed.take(changed(1000, generation=9, content=spec(source={"path": "new"})))
    deployed.take(changed(1001, version=3, generation=2, epoch=8, content=spec(source={"path": "restored"})))
    assert json.loads(application(deployed).manifest)["spec"]["source"]["path"] == "restored"


def test_tenant_when_its_partition_changed_then_its_row_follows(deployed: World) -> None:
    (tenant,) = deployed.take(changed(1, epoch=2, partition=4)).tenants
    assert tenant.partition == 4


# Errors


@pytest.mark.parametrize(
    ("event", "part"),
    [
        pytest.param(changed(5, generation=2, content=spec(source={"path": "/"})), "cannot be '/'", id="rule"),
        pytest.param(changed(5, generation=2, content="{"), "Invalid JSON", id="model"),
        pytest.param(changed(5, generation=2, api_version="a/v9"), "is not supported", id="version"),
        pytest.param(changed(5, generation=2, content="{}", omitted="the spec is too long"), "too long", id="omitted"),
    ],
)
def test_spec_when_refused_then_the_condition_says_why_and_the_application_stays(
    deployed: World, event: Any, part: str
) -> None:
    before = application(deployed)
    deployed.take(event)
    assert application(deployed) == before
    assert condition(deployed)["status"] == "True"
    assert condition(deployed)["reason"] == "ErrorOccurred"
    assert part in condition(deployed)["message"]
    assert shown(deployed)["sync"] == SYNCED
    assert {o.state for o in deployed.audit_records.values() if o.generation == 2} == {"Failed"}


def test_spec_when_refused_from_the_start_then_there_is_a_condition_and_no_application(world: World) -> None:
    changes = world.take(changed(1, content=spec(source={"path": ""})))
    assert changes.engine == ()
    assert condition(world)["message"] == "spec.source.path is a required field and it cannot be empty"


def test_spec_when_corrected_then_the_error_is_resolved_at_once(world: World) -> None:
    world.take(changed(1, content=spec(source={"path": ""})))
    world.take(changed(2, generation=2))
    resolved = condition(world)
    assert (resolved["status"], resolved["reason"], resolved["message"]) == ("False", "ErrorOccurredResolved", "")
    assert world.application() is not None


@pytest.mark.parametrize("words", ["denied", "spec.source.repoURL is unknown to engine-7"])
def test_manifest_when_the_engine_refuses_it_then_the_audit_says_why_and_the_cr_that_it_is_so(
    world: World, words: str
) -> None:
    world.take(changed(1))
    world.take(engine_says(world, 2, Failed(application(world).digest, permanent=True, message=words)))
    assert condition(world)["message"] == "an unknown error occurred"
    assert (operation(world, "create").state, operation(world, "create").message) == ("Failed", words)


def test_manifest_when_an_agent_refuses_its_repository_then_the_cr_says_why(world: World) -> None:
    why = "spec.source.repoURL names a host that cannot be used: the host is at an address that may not be reached"
    world.take(changed(1))
    world.take(engine_says(world, 2, Failed(application(world).digest, permanent=True, message=why, for_user=True)))
    assert condition(world)["message"] == why
    world.take(engine_says(world, 3, Applied(application(world).digest)))
    assert condition(world)["reason"] == "ErrorOccurredResolved"


def test_manifest_when_it_may_be_accepted_later_then_its_operation_waits_until_it_is(world: World) -> None:
    world.take(changed(1))
    digest = application(world).digest
    world.take(engine_says(world, 2, Failed(digest, permanent=False, message="time-out")))
    assert operation(world, "create").state == "Waiting"
    world.take(engine_says(world, 3, Applied(digest)))
    assert operation(world, "create").state == "Completed"
    assert condition(world)["reason"] == "ErrorOccurredResolved"


def test_project_when_the_engine_refuses_it_then_the_deployments_that_wait_for_it_say_so(deployed: World) -> None:
    deployed.take(changed(5, "api", uid="uid-2", content=spec(source={"repoURL": "https://git.example.com/api"})))
    deployed.take(project_says(deployed, 6, Failed(project(deployed).digest, permanent=True, message="denied")))
    (waiting,) = [row for row in deployed.workspace.values() if row.name == "api"]
    assert "an unknown error occurred" in waiting.status
    assert "denied" not in waiting.status
    assert "an unknown error occurred" not in deployed.workspace[KEY].status


def test_project_when_its_engine_is_not_there_then_the_deployments_that_wait_for_it_say_that(deployed: World) -> None:
    deployed.take(changed(5, "api", uid="uid-2", content=spec(source={"repoURL": "https://git.example.com/api"})))
    message = ENGINE_NOT_ACCEPTED.text()
    refused = Failed(project(deployed).digest, permanent=True, message=message, for_user=True)
    deployed.take(project_says(deployed, 6, refused))
    (waiting,) = [row for row in deployed.workspace.values() if row.name == "api"]
    assert f'"{message}"' in waiting.status
    assert message not in deployed.workspace[KEY].status


def test_project_when_an_older_one_was_refused_then_nothing_changes(deployed: World) -> None:
    assert deployed.take(project_says(deployed, 6, Failed("old", permanent=True, message="denied"))) == NOTHING


@pytest.mark.parametrize("event", [Failed("old", permanent=True, message="x"), Applied("old")])
def test_observation_when_about_a_manifest_no_longer_desired_then_it_changes_nothing(
    deployed: World, event: Any
) -> None:
    assert deployed.take(engine_says(deployed, 9, event)) == NOTHING


# Status


def test_status_when_reported_first_then_it_counts_from_the_change_of_the_cr(deployed: World) -> None:
    assert deployed.workspace[KEY].seen_at == at(1)
    assert deployed.workspace[KEY].trace_id == traceparent(1)


def test_status_when_reported_later_then_it_counts_from_its_own_time(deployed: World) -> None:
    deployed.take(engine_says(deployed, 9, status(2, sync={"status": "OutOfSync"})))
    assert deployed.workspace[KEY].seen_at == at(9)


def test_status_when_reported_first_after_a_change_then_it_counts_from_that_change(deployed: World) -> None:
    deployed.take(changed(20, generation=2, content=spec(source={"path": "new"})))
    deployed.take(engine_says(deployed, 22, status(2, sync={"status": "OutOfSync"})))
    assert deployed.workspace[KEY].seen_at == at(20)


def test_status_when_repeated_then_nothing_is_written(deployed: World) -> None:
    assert deployed.take(engine_says(deployed, 9, status(5, sync=SYNCED))) == NOTHING


def test_status_when_late_then_it_changes_nothing(deployed: World) -> None:
    deployed.take(engine_says(deployed, 9, status(50, sync={"status": "OutOfSync"})))
    assert deployed.take(engine_says(deployed, 8, status(40, sync=SYNCED))) == NOTHING


def test_observation_when_from_another_instance_then_it_changes_nothing(deployed: World) -> None:
    event = observed(9, status(9, sync={"status": "OutOfSync"}), instance="another")
    assert deployed.take(event) == NOTHING


def test_observation_when_from_another_tenant_then_it_changes_nothing(deployed: World) -> None:
    event = engine_says(deployed, 9, status(9, sync={"status": "OutOfSync"}))
    foreign = replace(event, message=replace(event.message, namespace="team-b"))
    assert deployed.take(foreign) == NOTHING


# Deletion


def test_deployment_when_gone_then_its_application_shall_be_absent_and_its_status_row_goes(deployed: World) -> None:
    changes = deployed.take(gone(10))
    assert [row.kind for row in changes.engine_absent] == ["Application"]
    assert changes.engine == ()
    assert KEY not in deployed.workspace
    assert operation(deployed, "delete").state == "Waiting"


def test_application_when_removed_then_row_and_deployment_go_and_the_project_follows(deployed: World) -> None:
    deployed.take(gone(10))
    deployed.take(engine_says(deployed, 11, Removed(forced=False)))
    assert deployed.application() is None
    assert deployed.deployments == {}
    assert project(deployed).desired == "absent"
    assert operation(deployed, "delete").state == "Completed"


def test_application_when_its_deletion_was_forced_then_the_audit_names_the_resources_that_were_seen_last(
    deployed: World,
) -> None:
    seen = [{"kind": "ConfigMap", "namespace": "team-a", "name": "settings"}]
    seen += [{"group": "apps", "kind": "Deployment", "namespace": "team-a", "name": f"web-{n}"} for n in range(51)]
    deployed.take(engine_says(deployed, 9, status(9, resources=seen)))
    deployed.take(gone(10))
    deployed.take(engine_says(deployed, 11, Removed(forced=True)))
    message = operation(deployed, "delete").message
    assert message.startswith(forced_deletion("gitopsdepl-uid-1"))
    assert "; last seen were ConfigMap team-a/settings, Deployment.apps team-a/web-0, " in message
    assert message.endswith("Deployment.apps team-a/web-48 and 2 more")


def test_deployment_to_an_environment_when_its_deletion_was_forced_then_the_audit_says_where_to_look() -> None:
    world = World()
    world.take(secret(1), environment(2))
    check(world, 3)
    world.take(changed(4, content=REMOTE))
    world.take(gone(5))
    world.take(engine_says(world, 6, Removed(forced=True)))
    assert operation(world, "delete").message == forced_deletion("gitopsdepl-uid-1", "prod")
    assert "in environment prod" in operation(world, "delete").message


def test_application_when_its_deletion_was_forced_then_the_audit_names_what_may_be_left_behind(
    deployed: World,
) -> None:
    deployed.take(gone(10))
    deployed.take(engine_says(deployed, 11, Removed(forced=True)))
    assert operation(deployed, "delete").message == forced_deletion("gitopsdepl-uid-1")


def test_project_when_removed_then_nothing_of_the_tenant_is_left(deployed: World) -> None:
    deployed.take(gone(10))
    deployed.take(engine_says(deployed, 11, Removed(forced=True)))
    deployed.take(project_says(deployed, 12, Removed(forced=False)))
    assert (deployed.engine, deployed.tenants, deployed.workspace) == ({}, {}, {})


def test_project_when_another_application_needs_it_then_it_keeps_only_what_that_needs(deployed: World) -> None:
    other = spec(source={"repoURL": "https://git.example.com/other"})
    deployed.take(changed(5, "other", uid="uid-2", content=other))
    deployed.take(gone(10))
    assert len(json.loads(project(deployed).manifest)["spec"]["sourceRepos"]) == 2
    deployed.take(engine_says(deployed, 11, Removed(forced=False)))
    assert json.loads(project(deployed).manifest)["spec"]["sourceRepos"] == ["https://git.example.com/other"]


def test_project_when_wanted_again_before_its_removal_is_known_then_it_stays(deployed: World) -> None:
    deployed.take(gone(10))
    deployed.take(engine_says(deployed, 11, Removed(forced=False)))
    deployed.take(changed(12, "web", uid="uid-2"))
    deployed.take(project_says(deployed, 13, Removed(forced=False)))
    assert project(deployed).desired == "present"


def test_cr_when_it_waits_with_the_finalizer_then_it_is_released_only_after_the_removal(deployed: World) -> None:
    deployed.take(changed(10, deleting=True, finalizers=(FINALIZER,)))
    assert not deployed.workspace[KEY].release_finalizer
    deployed.take(engine_says(deployed, 11, Removed(forced=False)))
    assert deployed.workspace[KEY].release_finalizer
    deployed.take(gone(12))
    assert (deployed.workspace, deployed.deployments) == ({}, {})


def test_cr_when_first_seen_while_it_is_being_deleted_then_it_is_released_at_once(world: World) -> None:
    changes = world.take(changed(1, deleting=True, finalizers=(FINALIZER,)))
    assert changes.engine == ()
    assert world.workspace[KEY].release_finalizer


def test_removal_when_the_deployment_is_wanted_then_it_changes_nothing(deployed: World) -> None:
    assert deployed.take(engine_says(deployed, 9, Removed(forced=False))) == NOTHING


def test_deployment_when_created_and_gone_within_a_batch_then_nothing_is_written(world: World) -> None:
    changes = world.take(changed(1), gone(2))
    assert (changes.engine, changes.deployments, changes.tenants) == ((), (), ())


# Re-creation


def test_cr_when_recreated_under_its_name_then_both_incarnations_have_their_own_application(deployed: World) -> None:
    deployed.take(gone(10))
    deployed.take(changed(11, uid="uid-2"))
    assert application(deployed).desired == "absent"
    assert application(deployed, "uid-2").desired == "present"


def test_cr_when_recreated_without_word_of_the_old_ones_end_then_the_old_one_is_gone(deployed: World) -> None:
    deployed.take(changed(11, uid="uid-2"))
    assert application(deployed).desired == "absent"
    assert KEY not in deployed.workspace


def test_cr_when_recreated_again_and_again_in_one_batch_then_only_the_last_is_there(deployed: World) -> None:
    deployed.take(*(changed(10 + number, uid=f"uid-{number}") for number in (2, 3, 4)))
    assert [known.uid for known in deployed.deployments.values() if known.present] == ["uid-4"]


def test_event_when_of_an_older_incarnation_then_it_changes_nothing(deployed: World) -> None:
    deployed.take(changed(11, uid="uid-2"))
    assert deployed.take(changed(9, uid="uid-1", generation=2)) == NOTHING
    assert deployed.take(gone(10, uid="uid-1")).engine == ()


def test_removal_when_of_the_older_incarnation_then_the_newer_ones_status_stays(deployed: World) -> None:
    deployed.take(changed(11, uid="uid-2"))
    deployed.take(engine_says(deployed, 12, status(9, sync=SYNCED), uid="uid-2"))
    deployed.take(engine_says(deployed, 13, Removed(forced=False)))
    assert deployed.workspace[KEY].uid == "uid-2"
    assert [d.uid for d in deployed.deployments.values()] == ["uid-2"]


# Resync


def test_resync_when_a_deployment_was_not_seen_then_it_is_gone(deployed: World) -> None:
    deployed.take(changed(5, "other", uid="uid-2", epoch=7), resync(8, epoch=7))
    assert application(deployed).desired == "absent"
    assert application(deployed, "uid-2").desired == "present"


@pytest.mark.parametrize(
    "marker", [pytest.param(resync(8, epoch=7, partition=3), id="other-partition"), resync(8, epoch=1)]
)
def test_resync_when_of_another_partition_or_not_newer_then_nothing_is_gone(deployed: World, marker: Any) -> None:
    assert deployed.take(marker)._replace(lists_completed=()) == NOTHING


def test_resync_when_it_would_remove_too_much_then_nothing_is_removed_and_that_is_told(world: World) -> None:
    world.policy = Policy(guard=SweepGuard(share=0.5, minimum=2))
    world.take(*(changed(number, f"web-{number}", uid=f"uid-{number}") for number in range(1, 6)))
    changes = world.take(resync(10, epoch=5))
    assert changes._replace(refused_sweeps=(), lists_completed=()) == NOTHING
    assert len(changes.refused_sweeps) == 1


@pytest.mark.parametrize(("epoch", "desired"), [(6, "absent"), (7, "present"), (9, "present")])
def test_deployment_when_swept_in_error_then_a_sighting_since_the_epoch_revives_it(
    deployed: World, epoch: int, desired: str
) -> None:
    deployed.take(resync(8, epoch=7))
    assert application(deployed).desired == "absent"
    deployed.take(changed(1, epoch=epoch))
    assert application(deployed).desired == desired
