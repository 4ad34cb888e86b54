"""What an instance does with rows, drift, silence and deletions, in virtual time."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import orjson
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from services.agent.stream.owned_instances import start_work
from services.common.errors import Retry
from services.common.kubernetes import NamespaceTerminating, NotFound, Rejected
from services.common.messages import (
    ORPHAN_REMOVAL,
    Applied,
    EngineResource,
    Failed,
    OrphansKept,
    Removed,
    StatusReported,
)
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import LABEL, bench
from tests.unit.agent.rows import application_row, project_row
from tests.unit.fake_clock import settle

CASCADE = "resources-finalizer.argocd.argoproj.io/background"


async def test_present_row_when_object_is_missing_then_it_is_created_reported_and_acknowledged(driver: Driver) -> None:
    await driver.begin()
    row = application_row()
    await driver.apply(row)
    assert driver.cluster.calls == [("create", "app")]
    assert driver.reports.of("app") == [Applied(row.digest)]
    assert driver.acknowledged == [0]


async def test_present_row_when_object_is_so_already_then_nothing_is_called_but_it_is_reported(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row())
    await driver.apply(application_row())
    assert driver.cluster.calls == [("create", "app")]
    assert len(driver.reports.of("app")) == 2
    assert driver.acknowledged == [0, 1]


async def test_event_when_its_observation_is_not_delivered_then_it_is_not_acknowledged(driver: Driver) -> None:
    await driver.begin()
    driver.reports.behind = True
    await driver.apply(application_row())
    assert driver.acknowledged == []
    driver.reports.catch_up(arrived=False)
    await settle()
    assert len(driver.reports.of("app")) == 2
    assert driver.acknowledged == [0]


async def test_repair_when_its_observation_is_lost_then_it_is_reported_again(driver: Driver) -> None:
    row = application_row()
    await driver.begin(row)
    driver.reports.sent.clear()
    driver.reports.behind = True
    driver.cluster.remove("Application", "app")
    await settle()
    driver.reports.catch_up(arrived=False)
    await settle()
    assert [type(event) for event in driver.reports.of("app")].count(Applied) == 2


async def test_changed_row_when_a_field_goes_then_it_disappears_from_the_object(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row(targetRevision="main"))
    await driver.apply(application_row())
    assert driver.cluster.calls == [("create", "app"), ("patch", "app")]
    assert "targetRevision" not in driver.cluster.objects["Application", "app"]["spec"]["source"]


async def test_changed_row_when_a_field_comes_then_it_is_applied(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row())
    await driver.apply(application_row(targetRevision="main"))
    assert driver.cluster.calls == [("create", "app"), ("apply", "app")]


async def test_newer_rows_when_the_first_is_still_being_applied_then_only_the_newest_follows(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.gates["app"] = asyncio.Event()
    await driver.apply(application_row())
    await driver.apply(*(application_row(targetRevision=f"v{number}") for number in range(20)))
    assert driver.cluster.calls == [("create", "app")]
    driver.cluster.gates["app"].set()
    await settle()
    assert driver.cluster.calls == [("create", "app"), ("apply", "app")]
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["targetRevision"] == "v19"
    assert driver.acknowledged == list(range(21))


async def test_newer_row_when_the_first_has_been_applied_then_it_is_acknowledged_only_after_its_own_effect(
    driver: Driver,
) -> None:
    await driver.begin()
    first = driver.cluster.gates["app"] = asyncio.Event()
    await driver.apply(application_row())
    await driver.apply(application_row(targetRevision="v2"))
    driver.cluster.gates["app"] = asyncio.Event()
    first.set()
    await settle()
    assert driver.acknowledged == [0]
    driver.cluster.gates["app"].set()
    await settle()
    assert driver.acknowledged == [0, 1]


async def test_objects_when_there_are_many_then_a_bounded_number_is_worked_on_at_once(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(*(application_row(f"app-{number}", lane=f"lane-{number % 7}") for number in range(100)))
    await settle()
    await settle()
    assert driver.cluster.most_in_flight == 8
    assert len(driver.cluster.names("Application")) == 100


async def test_application_when_its_project_is_pending_then_it_waits_for_it(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.gates["project"] = asyncio.Event()
    await driver.apply(project_row(), application_row(), application_row("other", lane="other-lane"))
    assert driver.cluster.writes() == [("create", "project"), ("create", "other")]
    driver.cluster.gates["project"].set()
    await settle()
    assert driver.cluster.writes()[-1] == ("create", "app")


async def test_project_when_its_applications_are_going_then_it_goes_after_them(driver: Driver) -> None:
    await driver.begin(project_row(), application_row())
    driver.cluster.calls.clear()
    await driver.apply(application_row(desired="absent"), project_row(desired="absent"))
    assert driver.cluster.writes() == [("patch", "app"), ("delete", "app")]
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.writes()[-1] == ("delete", "project")
    assert driver.cluster.objects == {}
    assert driver.acknowledged == [0, 1]


async def test_instance_when_it_does_not_answer_then_one_object_probes_and_nothing_is_lost(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.failing = Retry("connection refused")
    await driver.apply(*(application_row(f"app-{number}") for number in range(50)))
    failed = len(driver.cluster.calls)
    assert failed <= 8
    await driver.clock.advance(60)
    assert len(driver.cluster.calls) - failed < 20
    assert driver.instance.pending == 50
    driver.cluster.failing = None
    await driver.clock.advance(30)
    assert len(driver.cluster.names("Application")) == 50
    assert driver.acknowledged == list(range(50))


async def test_row_when_the_namespace_is_missing_then_it_waits_and_others_go_on(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.refusing["app"] = NotFound("namespaces argocd not found")
    await driver.apply(application_row(), application_row("other", lane="other"))
    assert driver.cluster.names("Application") == ["other"]
    assert driver.reports.of("app") == []
    del driver.cluster.refusing["app"]
    await driver.clock.advance(31)
    assert driver.cluster.names("Application") == ["app", "other"]


async def test_row_when_the_namespace_is_being_deleted_then_it_waits_for_as_long_as_that_takes(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.refusing["app"] = NamespaceTerminating("unable to create new content")
    row = application_row()
    await driver.apply(row, application_row("other", lane="other"))
    await driver.clock.advance(120)
    assert (driver.cluster.names("Application"), driver.reports.of("app")) == (["other"], [])
    del driver.cluster.refusing["app"]
    await driver.clock.advance(31)
    assert driver.reports.of("app")[0] == Applied(row.digest)


async def test_row_when_the_api_server_refuses_it_then_that_is_reported_and_acknowledged(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.refusing["app"] = Rejected("spec.source: too long", 422)
    row = application_row()
    await driver.apply(row)
    assert driver.reports.of("app") == [Failed(row.digest, permanent=True, message="spec.source: too long")]
    assert driver.acknowledged == [0]


async def test_row_when_an_api_server_that_has_just_started_forbids_it_then_it_waits_and_nothing_is_told(
    driver: Driver,
) -> None:
    await driver.begin()
    driver.cluster.refusing["app"] = Rejected("user agent may not", 403)
    row = application_row()
    await driver.apply(row, application_row("other", lane="other"))
    assert driver.cluster.names("Application") == ["other"]
    await driver.clock.advance(8)
    assert driver.reports.of("app") == []
    del driver.cluster.refusing["app"]
    await driver.clock.advance(31)
    assert driver.reports.of("app")[0] == Applied(row.digest)


async def test_row_when_it_stays_forbidden_then_its_tenant_is_told_that_operators_know(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.refusing["app"] = Rejected("user agent may not", 403)
    row = application_row()
    await driver.apply(row)
    with capture_logs() as logs:
        await driver.clock.advance(90)
    told = Failed(row.digest, permanent=True, message=ENGINE_NOT_ACCEPTED.text(), for_user=True)
    assert driver.reports.of("app") == [told]
    assert [line["error"] for line in logs if line["event"] == "forbidden"] == ["user agent may not"]


async def test_pending_when_all_is_as_desired_then_it_is_0(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row())
    assert REGISTRY.get_sample_value("gitops_engine_pending_resources", {"instance": "argocd"}) == 0
    driver.cluster.failing = Retry("away")
    await driver.apply(application_row("other"))
    assert REGISTRY.get_sample_value("gitops_engine_pending_resources", {"instance": "argocd"}) == 1


@pytest.mark.parametrize(
    "change",
    [{"kind": "ClusterRole"}, {"namespace": "kube-system"}, {"manifest": "[]"}, {"manifest": "{"}, {"name": "another"}],
    ids=["kind", "namespace", "not an object", "not JSON", "another name than the manifest's"],
)
async def test_row_when_it_is_not_one_for_this_instance_then_nothing_is_called(
    driver: Driver, change: dict[str, str]
) -> None:
    await driver.begin()
    await driver.apply(replace(application_row(), **change))
    assert driver.cluster.calls == []
    [(_, event)] = driver.reports.sent
    assert isinstance(event, Failed)
    assert event.permanent
    assert driver.acknowledged == [0]


@pytest.mark.parametrize(
    "change",
    [{"kind": "ClusterRole"}, {"namespace": "kube-system"}, {"manifest": "{"}],
    ids=["kind", "namespace", "not JSON"],
)
async def test_take_over_when_a_row_is_not_one_for_this_instance_then_the_others_are_worked_on(
    driver: Driver, change: dict[str, str]
) -> None:
    await driver.begin(replace(application_row("strange"), **change), application_row())
    await driver.clock.advance(1000)
    assert driver.cluster.names("Application") == ["app"]
    assert {type(event) for event in driver.reports.of("strange")} == {Failed}


async def test_object_when_somebody_edits_it_then_it_is_repaired_at_once_and_reported_as_drift(driver: Driver) -> None:
    row = application_row()
    await driver.begin(row)
    driver.cluster.edit("Application", "app", {"spec": {"source": {"path": "elsewhere"}}})
    await settle()
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["path"] == "manifests"
    assert driver.reports.of("app")[-1] == Applied(row.digest, drift_repaired=True)


async def test_object_when_somebody_adds_to_what_is_ours_then_it_is_taken_away(driver: Driver) -> None:
    await driver.begin(project_row())
    driver.cluster.edit("AppProject", "project", {"spec": {"clusterResourceWhitelist": [{"group": "*", "kind": "*"}]}})
    await settle()
    assert "clusterResourceWhitelist" not in driver.cluster.objects["AppProject", "project"]["spec"]


async def test_object_when_somebody_changes_what_is_not_ours_then_it_is_left_alone(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.cluster.calls.clear()
    change = {"metadata": {"labels": {"team": "a"}}, "spec": {"revisionHistoryLimit": 3}, "status": {"health": {}}}
    driver.cluster.edit("Application", "app", change)
    await settle()
    assert driver.cluster.calls == []


async def test_object_when_somebody_deletes_it_then_it_is_made_again(driver: Driver) -> None:
    row = application_row()
    await driver.begin(row)
    driver.cluster.remove("Application", "app")
    await settle()
    assert driver.cluster.names("Application") == ["app"]
    assert driver.reports.of("app")[-1] == Applied(row.digest, drift_repaired=True)


async def test_object_when_somebody_takes_our_label_off_then_it_is_put_on_again(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.cluster.edit("Application", "app", {"metadata": {"labels": {next(iter(LABEL)): None}}})
    await settle()
    assert LABEL.items() <= driver.cluster.objects["Application", "app"]["metadata"]["labels"].items()


async def test_object_when_somebody_keeps_undoing_us_then_repairs_become_rare(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.cluster.calls.clear()
    for _ in range(200):
        driver.cluster.edit("Application", "app", {"spec": {"source": {"path": "elsewhere"}}})
        await driver.clock.advance(0.1)
    assert len(driver.cluster.calls) < 15
    await driver.clock.advance(60)
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["path"] == "manifests"


async def test_absent_row_when_the_engine_finishes_then_it_is_removed_without_force(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(application_row(desired="absent"))
    assert driver.cluster.objects["Application", "app"]["metadata"]["finalizers"] == [CASCADE]
    assert driver.acknowledged == []
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.reports.of("app")[-1] == Removed(forced=False)
    assert driver.acknowledged == [0]


async def test_absent_row_when_the_engine_does_not_finish_then_it_is_forced_at_the_deadline(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(application_row(desired="absent"))
    await driver.clock.advance(59)
    assert driver.cluster.names("Application") == ["app"]
    await driver.clock.advance(2)
    assert driver.cluster.names("Application") == []
    assert driver.reports.of("app")[-1] == Removed(forced=True)
    assert driver.acknowledged == [0]


@pytest.mark.parametrize(
    ("phase", "left"),
    [("Running", ({"sync": {}}, "Terminating")), ("Succeeded", (None, "Succeeded"))],
    ids=["under way", "not begun"],
)
async def test_absent_row_when_an_operation_is_asked_for_then_it_is_ended_first(
    driver: Driver, phase: str, left: tuple[object, str]
) -> None:
    await driver.begin(application_row())
    driver.cluster.edit(
        "Application", "app", {"operation": {"sync": {}}, "status": {"operationState": {"phase": phase}}}
    )
    await driver.apply(application_row(desired="absent"))
    await settle()
    application = driver.cluster.objects["Application", "app"]
    assert (application.get("operation"), application["status"]["operationState"]["phase"]) == left


async def test_deletions_when_many_are_stuck_then_others_are_not_delayed(driver: Driver) -> None:
    rows = [application_row(f"app-{number}") for number in range(40)]
    await driver.begin(*rows)
    await driver.apply(*(application_row(f"app-{number}", desired="absent") for number in range(40)))
    await settle()
    await driver.apply(application_row("new", lane="other"))
    assert "new" in driver.cluster.names("Application")


async def test_absent_row_when_the_object_never_existed_then_it_is_asked_for_once(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row(desired="absent"))
    assert driver.cluster.calls == [("get", "app")]
    assert driver.reports.of("app") == [Removed(forced=False)]


async def test_absent_row_when_the_object_has_lost_our_label_then_it_is_found_and_removed(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.instance._working = False  # the label goes while nobody looks
    driver.cluster.edit("Application", "app", {"metadata": {"labels": {next(iter(LABEL)): None}}})
    await settle()
    driver.instance._working = True
    await driver.apply(application_row(desired="absent"))
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.objects == {}
    assert driver.reports.of("app")[-1] == Removed(forced=False)


async def test_row_when_it_becomes_present_again_while_going_then_the_object_is_made_anew(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(application_row(desired="absent"))
    await driver.apply(application_row())
    assert driver.acknowledged == [0]
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.names("Application") == ["app"]
    assert driver.acknowledged == [0, 1]


async def test_deleted_row_when_its_object_is_gone_then_it_is_only_forgotten(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row(desired="absent"))
    calls = list(driver.cluster.calls)
    await driver.apply(replace(application_row(desired="absent"), deleted=True))
    await driver.clock.advance(1000)
    assert driver.cluster.calls == calls
    assert driver.acknowledged == [0, 1]


async def test_recovery_when_objects_differ_then_only_those_are_written(driver: Driver) -> None:
    rows = [application_row(f"app-{number}") for number in range(5)]
    await driver.begin(*rows)
    await driver.instance.suspend()
    driver.cluster.calls.clear()
    driver.cluster.edit("Application", "app-3", {"spec": {"source": {"path": "elsewhere"}}})
    await settle()
    driver.instance.start_work(rows)
    await settle()
    assert driver.cluster.calls == [("apply", "app-3")]


async def test_suspended_instance_when_work_is_in_flight_then_it_ends_and_acknowledges_nothing(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.gates["app"] = asyncio.Event()
    await driver.apply(application_row())
    await driver.instance.suspend()
    driver.revoke_partition()
    driver.cluster.gates["app"].set()
    await settle()
    assert driver.cluster.objects == {}
    assert driver.acknowledged == []


async def test_status_when_only_timings_change_then_it_is_reported_once(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    for minute in range(5):
        status = {"health": {"status": "Healthy"}, "reconciledAt": f"2026-01-01T00:0{minute}:00Z"}
        driver.cluster.edit("Application", "app", {"status": status})
        await settle()
    assert len([event for event in driver.reports.of("app") if isinstance(event, StatusReported)]) == 1


async def test_status_when_it_becomes_empty_then_that_is_reported(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row())
    driver.cluster.edit("Application", "app", {"status": {"health": {"status": "Healthy"}}})
    await settle()
    driver.cluster.edit("Application", "app", {"status": None})
    await settle()
    reported = [event.status for event in driver.reports.of("app") if isinstance(event, StatusReported)]
    assert reported == ['{"health":{"status":"Healthy"}}', "{}"]


async def test_status_when_an_application_with_one_is_made_anew_then_it_is_reported_empty(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row())
    driver.cluster.edit("Application", "app", {"status": {"health": {"status": "Healthy"}}})
    await settle()
    driver.cluster.remove("Application", "app")
    await settle()
    last = [event for event in driver.reports.of("app") if isinstance(event, StatusReported)][-1]
    assert last.status == "{}"


async def test_statuses_when_the_log_is_behind_then_only_first_and_newest_are_sent(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    driver.reports.behind = True
    for number in range(50):
        driver.cluster.edit("Application", "app", {"status": {"health": {"status": f"state-{number}"}}})
        await settle()
    driver.reports.catch_up()
    await settle()
    assert [event.status for event in driver.reports.of("app") if isinstance(event, StatusReported)] == [
        '{"health":{"status":"state-0"}}',
        '{"health":{"status":"state-49"}}',
    ]


async def restored(driver: Driver) -> None:
    """Let the API server forget a change of the Application, and half of what it has counted."""
    await driver.begin(project_row(), application_row())
    backup = driver.cluster.backup()
    for number in range(20):
        driver.cluster.edit("Application", "app", {"status": {"sync": {"status": f"{number}"}}})
    await driver.apply(application_row(targetRevision="main"))
    driver.cluster.restore(backup)


async def test_api_server_when_restored_from_a_backup_then_what_it_has_forgotten_is_applied_again(
    driver: Driver,
) -> None:
    await restored(driver)
    driver.cluster.relist()
    await settle()
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["targetRevision"] == "main"


async def test_api_server_when_restored_from_a_backup_then_drift_is_still_seen(driver: Driver) -> None:
    await restored(driver)
    driver.cluster.relist()
    await settle()
    driver.cluster.edit("AppProject", "project", {"spec": {"sourceRepos": ["*"]}})
    await settle()
    assert driver.cluster.objects["AppProject", "project"]["spec"]["sourceRepos"] == ["https://example.com/repo"]


async def test_row_when_it_comes_before_a_restored_api_server_is_listed_then_it_is_applied(driver: Driver) -> None:
    await restored(driver)
    driver.reports.sent.clear()
    row = application_row(targetRevision="next")
    await driver.apply(row)
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["targetRevision"] == "next"
    told = driver.reports.of("app")
    assert Applied(row.digest) in told
    assert not [event for event in told if isinstance(event, Failed)]


async def test_orphan_when_the_grace_time_has_passed_then_it_is_deleted_through_the_same_path() -> None:
    driver = Driver(bench(orphan_grace_seconds=500, comparison_interval_seconds=100))
    await driver.begin(application_row("known"), application_row("orphan"))
    await driver.apply(replace(application_row("orphan"), deleted=True))
    await driver.clock.advance(450)
    assert driver.cluster.names("Application") == ["known", "orphan"]
    await driver.clock.advance(155)
    driver.cluster.edit("Application", "orphan", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.names("Application") == ["known"]
    await driver.instance.stop()


async def test_application_when_it_does_not_carry_our_label_then_it_is_never_touched(driver: Driver) -> None:
    foreign = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "spec": {"project": "default"}}
    driver.cluster.put("Application", "before", foreign)
    await driver.begin(application_row("known"), application_row("other"))
    driver.cluster.put("Application", "later", {"spec": {"project": "default"}})
    driver.cluster.edit("Application", "before", {"spec": {"project": "another"}})
    there = {name: copy.deepcopy(driver.cluster.objects["Application", name]) for name in ("before", "later")}
    await driver.clock.advance(3600)
    assert {name for _, name in driver.cluster.writes()} == {"known", "other"}
    assert {name: driver.cluster.objects["Application", name] for name in there} == there


async def test_orphans_when_nothing_at_all_is_desired_then_nothing_is_deleted() -> None:
    driver = Driver(bench(orphan_grace_seconds=1, comparison_interval_seconds=10))
    rows = [application_row(f"app-{number}") for number in range(5)]
    await driver.begin(*rows)
    await driver.instance.suspend()
    driver.instance.start_work([])
    await driver.clock.advance(1000)
    assert len(driver.cluster.names("Application")) == 5
    await driver.instance.stop()


def removal(*names: str) -> EngineResource:
    """An operator's approval to remove these Applications."""
    manifest = orjson.dumps({"objects": [f"Application/{name}" for name in names]}).decode()
    return replace(application_row("digest"), kind=ORPHAN_REMOVAL, namespace="", manifest=manifest)


async def test_orphans_when_their_removal_is_approved_then_they_go_at_once_and_their_agent_tells_that_it_is_done() -> (
    None
):
    driver = Driver(bench(orphan_grace_seconds=1, comparison_interval_seconds=10))
    await driver.begin(*(application_row(f"app-{number}") for number in range(5)))
    await driver.instance.suspend()
    driver.instance.start_work([])
    await settle()
    await driver.clock.advance(11)
    names = [f"app-{number}" for number in range(5)]
    kept = OrphansKept(5, 5, tuple(f"Application/{name}" for name in names), ())
    assert driver.reports.told[-1] == (driver.instance.name, kept)

    offset = driver.submit(removal(*names[:4]))
    await settle()
    for name in names[:4]:
        driver.cluster.edit("Application", name, {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.names("Application") == ["app-4"]
    assert offset in driver.acknowledged
    await driver.clock.advance(11)
    assert driver.reports.told[-1] == (driver.instance.name, OrphansKept(1, 1, ("Application/app-4",), ("digest",)))
    driver.submit(replace(removal(), deleted=True))
    await driver.clock.advance(11)
    assert driver.reports.told[-1] == (driver.instance.name, OrphansKept(1, 1, ("Application/app-4",), ()))
    assert driver.acknowledged[-1] == offset + 1
    await driver.instance.stop()


async def test_approval_when_the_instance_is_taken_over_then_it_counts_and_is_no_object_that_is_desired() -> None:
    driver = Driver(bench(orphan_grace_seconds=1, comparison_interval_seconds=10))
    await driver.begin(*(application_row(f"app-{number}") for number in range(5)))
    await driver.instance.suspend()
    start_work(driver.instance, [removal("app-1")], [removal("app-1")])
    await settle()
    await driver.clock.advance(11)
    driver.cluster.edit("Application", "app-1", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.names("Application") == ["app-0", "app-2", "app-3", "app-4"]
    assert driver.reports.of("digest") == []
    await driver.instance.stop()


async def test_comparison_when_a_watch_missed_something_then_it_is_repaired(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.instance._working = False
    driver.cluster.remove("Application", "app")
    await settle()
    driver.instance._working = True
    await driver.clock.advance(301)
    assert driver.cluster.names("Application") == ["app"]


async def test_row_when_it_is_withdrawn_while_it_is_applied_then_nothing_is_reported_of_it(driver: Driver) -> None:
    await driver.begin()
    gate = driver.cluster.gates["app"] = asyncio.Event()
    await driver.apply(application_row())
    await driver.apply(replace(application_row(), deleted=True))
    gate.set()
    await settle()
    assert driver.reports.of("app") == []
