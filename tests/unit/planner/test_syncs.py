"""Sync runs of a tenant, from their CRs to the orders for its engine and back."""

from __future__ import annotations

import json

import pytest

from services.kinds.shared.api_group import FINALIZER
from tests.unit.planner.given import (
    SYNC_RUN,
    Failed,
    changed,
    environment,
    gone,
    observed,
    resource_gone,
    resync,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL, check, conditions, finish, manifest, moved, operation, row, rows, says
from tests.unit.planner.world import World


def test_syncs_of_one_second_when_listed_again_then_they_keep_their_turn(world: World) -> None:
    world.take(sync_run(2, "b"), sync_run(2, "a", version=3))
    world.take(sync_run(2, "b", version=9, epoch=5), sync_run(2, "a", version=8, epoch=5))
    world.take(changed(4, content=MANUAL))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-b"


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


def test_sync_when_an_agent_refuses_what_its_user_wrote_then_it_says_why(manual: World) -> None:
    manual.take(sync_run(2))
    refused = Failed(row(manual, "SyncOperation").digest, permanent=True, message="needs a login", for_user=True)
    says(manual, 4, refused, "SyncOperation")
    assert operation(manual, "now") == {"phase": "Error", "message": "needs a login"}


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


def test_sync_when_it_was_refused_then_it_does_not_run_once_the_deployment_is_manual_and_says_so(world: World) -> None:
    world.take(changed(1), sync_run(2))
    world.take(changed(3, generation=2, content=MANUAL))
    assert rows(world, "SyncOperation") == []
    assert operation(world, "now")["phase"] == "Error"
    assert "never takes place" in operation(world, "now")["message"]
    world.take(sync_run(4, "again"))
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-again"


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


# A run syncs what its deployment says now, never what it said before

TO_PROD = spec(type="manual", source={"targetRevision": "v2"}, destination={"environment": "prod", "namespace": "web"})
REPAIRED = spec(type="manual", source={"targetRevision": "v3"})
BROKEN = spec(type="manual", source={"path": "/", "targetRevision": "v2"})


def test_sync_when_the_newest_spec_waits_for_its_environment_then_the_run_waits_for_that(world: World) -> None:
    world.take(changed(1, content=spec(type="manual", source={"targetRevision": "v1"})))
    world.take(secret(2), environment(3))
    world.take(changed(4, generation=2, content=TO_PROD))
    world.take(sync_run(5, target=("uid-1", 2)))
    assert (rows(world, "SyncOperation"), operation(world, "now")["phase"]) == ([], "Waiting")
    check(world, 6)
    assert manifest(world, "SyncOperation")["operation"]["revision"] == "v2"
    assert manifest(world, "Application")["spec"]["destination"]["name"] == row(world, "ClusterSecret").name


def test_sync_when_only_the_newest_spec_is_manual_then_the_run_is_not_refused(world: World) -> None:
    world.take(changed(1), secret(2), environment(3))
    world.take(changed(4, generation=2, content=TO_PROD))
    world.take(sync_run(5, target=("uid-1", 2)))
    assert operation(world, "now")["phase"] == "Waiting"
    check(world, 6)
    assert manifest(world, "SyncOperation")["operation"]["run"] == "uid-now"


def test_sync_when_the_newest_spec_is_wrong_then_the_run_waits_until_it_is_mended(world: World) -> None:
    world.take(changed(1, content=MANUAL))
    world.take(changed(4, generation=2, content=BROKEN))
    world.take(sync_run(5, target=("uid-1", 2)))
    assert (rows(world, "SyncOperation"), operation(world, "now")["phase"]) == ([], "Waiting")
    world.take(changed(6, generation=3, content=REPAIRED))
    assert manifest(world, "SyncOperation")["operation"]["revision"] == "v3"


# What was told of a run counts, in whatever order


def test_sync_when_a_late_report_comes_with_its_end_then_it_has_ended(manual: World) -> None:
    manual.take(sync_run(2))
    order = row(manual, "SyncOperation")
    ended, late = moved("now", "Succeeded", finished="2026-05-04T12:00:01Z"), moved("now", "Running")
    reports = [
        observed(second, event, instance=order.engine_instance_id, kind=order.kind, name=order.name)
        for second, event in ((3, ended), (4, late))
    ]
    manual.take(*reports)
    assert (operation(manual, "now")["phase"], rows(manual, "SyncOperation")) == ("Succeeded", [])


def test_sync_when_it_was_seen_to_begin_then_its_order_says_so(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    assert "begun" not in manifest(manual, "SyncOperation")["operation"]
    says(manual, 4, moved("first", "Running"), "SyncOperation")
    assert manifest(manual, "SyncOperation")["operation"]["begun"] is True
    finish(manual, 5, "first")
    assert "begun" not in manifest(manual, "SyncOperation")["operation"]


def test_syncs_when_a_lost_database_hears_of_them_again_then_what_has_ended_counts_and_does_not_run_again(
    manual: World,
) -> None:
    """Two that were started one after the other, by a database that was lost: both ends are told at once."""
    manual.take(sync_run(2, "first"), sync_run(2, "second"), sync_run(2, "third"))
    order = row(manual, "SyncOperation")
    ends = [moved("first", "Succeeded"), moved("second", "Failed", message="no")]
    manual.take(
        *(observed(3, event, instance=order.engine_instance_id, kind=order.kind, name=order.name) for event in ends)
    )
    assert [operation(manual, run)["phase"] for run in ("first", "second")] == ["Succeeded", "Failed"]
    third = manifest(manual, "SyncOperation")["operation"]
    assert (third["run"], third["sequence"]) == ("uid-third", 2002)


def test_sync_when_a_lost_database_has_refused_it_by_what_came_later_then_its_end_counts(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    order = row(manual, "SyncOperation")
    manual.take(changed(4))
    assert operation(manual, "second")["phase"] == "Error"
    ended = moved("second", "Succeeded")
    manual.take(observed(5, ended, instance=order.engine_instance_id, kind=order.kind, name=order.name))
    assert operation(manual, "second")["phase"] == "Succeeded"


def test_sync_when_it_waits_and_an_agent_tells_that_it_runs_then_it_still_waits_for_its_turn(manual: World) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    says(manual, 4, moved("second", "Running"), "SyncOperation")
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-first"


def written(world: World, name: str) -> str:
    """The status that a run's CR has by now, and keeps whatever becomes of the database."""
    (found,) = [each for each in world.workspace.values() if (each.kind, each.name) == (SYNC_RUN, name)]
    return found.status


def test_syncs_when_all_but_their_statuses_is_lost_then_each_keeps_its_outcome_and_a_new_one_runs(
    manual: World,
) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    finish(manual, 4, "first")
    says(manual, 5, moved("second", "Failed", started="2026-05-04T12:00:02Z"), "SyncOperation")
    highest = max(each.sequence for each in manual.sync_runs.values())
    before = {name: operation(manual, name) for name in ("first", "second")}
    statuses = {name: written(manual, name) for name in before}
    rebuilt = World()
    rebuilt.take(changed(6, content=MANUAL, epoch=6))
    rebuilt.take(*(sync_run(2, name, recalled=status, epoch=6) for name, status in statuses.items()))
    assert rows(rebuilt, "SyncOperation") == []
    assert {name: operation(rebuilt, name) for name in before} == before
    rebuilt.take(sync_run(7, "third"))
    order = manifest(rebuilt, "SyncOperation")["operation"]
    assert (order["run"], "begun" in order) == ("uid-third", False)
    assert order["sequence"] > highest, "its Application has seen no higher one, so it starts"


def test_sync_when_it_was_seen_to_begin_by_a_database_that_is_lost_then_its_order_says_so(manual: World) -> None:
    manual.take(sync_run(2))
    says(manual, 3, moved("now", "Running", started="2026-05-04T12:00:02Z"), "SyncOperation")
    rebuilt = World()
    rebuilt.take(changed(4, content=MANUAL), sync_run(2, recalled=written(manual, "now")))
    assert manifest(rebuilt, "SyncOperation")["operation"]["begun"] is True


def test_sync_when_it_was_only_ordered_by_a_database_that_is_lost_then_it_may_start(manual: World) -> None:
    manual.take(sync_run(2))
    rebuilt = World()
    rebuilt.take(changed(4, content=MANUAL), sync_run(2, recalled=written(manual, "now")))
    assert "begun" not in manifest(rebuilt, "SyncOperation")["operation"]


def test_sync_when_a_lost_database_had_refused_it_then_it_never_runs_and_says_the_same(world: World) -> None:
    world.take(changed(1), sync_run(2))
    before = conditions(world, SYNC_RUN, "now"), operation(world, "now")
    rebuilt = World()
    rebuilt.take(changed(3, content=MANUAL), sync_run(2, recalled=written(world, "now")))
    assert rows(rebuilt, "SyncOperation") == []
    assert (conditions(rebuilt, SYNC_RUN, "now"), operation(rebuilt, "now")) == before


def test_sync_when_a_lost_database_had_seen_its_deployment_go_then_it_does_not_run_for_the_next_of_that_name(
    manual: World,
) -> None:
    manual.take(sync_run(2, "first", target=("uid-1", 1)), sync_run(3, "second", target=("uid-1", 1)))
    manual.take(gone(4))
    before = conditions(manual, SYNC_RUN, "second")
    assert "was deleted" in before["ErrorOccurred"][2]
    rebuilt = World()
    again = sync_run(3, "second", target=("uid-2", 1), recalled=written(manual, "second"))
    rebuilt.take(changed(5, uid="uid-2", content=MANUAL), again)
    assert (rows(rebuilt, "SyncOperation"), conditions(rebuilt, SYNC_RUN, "second")) == ([], before)


def test_sync_when_its_order_is_out_and_a_restored_database_is_told_of_its_end_then_the_next_begins(
    manual: World,
) -> None:
    manual.take(sync_run(2, "first"), sync_run(3, "second"))
    ended = '{"operation":{"phase":"Succeeded","revision":"abc","finishedAt":"2026-05-04T12:00:01Z"}}'
    manual.take(sync_run(2, "first", epoch=5, version=9, recalled=ended))
    assert operation(manual, "first")["phase"] == "Succeeded"
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-second"


@pytest.mark.parametrize(
    "status",
    [
        "{}",
        "[]",
        '{"operation":[]}',
        '{"operation":{"phase":7,"startedAt":{}}}',
        '{"conditions":[{"type":"ErrorOccurred","message":"other"}]}',
    ],
)
def test_sync_when_its_status_says_nothing_of_an_end_then_it_runs(manual: World, status: str) -> None:
    manual.take(sync_run(2, recalled=status))
    assert manifest(manual, "SyncOperation")["operation"]["run"] == "uid-now"


def test_sync_when_its_status_was_forged_then_no_more_of_it_is_stored_than_of_what_an_engine_says(
    manual: World,
) -> None:
    told = {"phase": "Error", "message": "\x1b[2J" + "x" * 100_000, "finishedAt": "yesterday"}
    manual.take(sync_run(2, recalled=json.dumps({"operation": told})))
    shown = operation(manual, "now")
    assert (shown["phase"], "\x1b" in shown["message"], len(shown["message"])) == ("Error", False, 8192)
    assert "finishedAt" not in shown
