"""How an instance carries syncs through, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from services.agent.reconcile.sync_steps import DELETED
from services.common.kubernetes import Conflict
from services.common.messages import Failed, Removed, SyncMoved
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, sync_row
from tests.unit.fake_clock import settle

SEQUENCE = "managed-gitops.redhat.com/sync-sequence"
OURS = {"sync": {"revision": "main"}, "info": [{"name": "gitops-sync-run", "value": "run-1"}]}
THEIRS = {"sync": {}, "initiatedBy": {"username": "admin"}}


def moves(driver: Driver) -> list[tuple[str, str]]:
    return [(event.run, event.phase) for event in driver.reports.of("app") if isinstance(event, SyncMoved)]


def application(driver: Driver) -> dict[str, Any]:
    return driver.cluster.objects["Application", "app"]


async def edit(driver: Driver, change: dict[str, Any]) -> None:
    driver.cluster.edit("Application", "app", change)
    await settle()


async def run(driver: Driver, phase: str, operation: dict[str, Any] | None = None, **more: Any) -> None:
    """Argo CD takes the operation on, or ends it."""
    state = {"operation": operation or application(driver).get("operation") or OURS, "phase": phase} | more
    ended = phase in {"Succeeded", "Failed", "Error"}
    await edit(driver, {"status": {"operationState": state}} | ({"operation": None} if ended else {}))


async def test_sync_when_it_is_asked_for_then_it_is_started_followed_and_reported_to_its_end(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(application_row(), sync_row())
    assert application(driver)["operation"]["info"] == OURS["info"]
    assert application(driver)["metadata"]["annotations"][SEQUENCE] == "1"
    assert driver.acknowledged == [0, 1]
    await run(driver, "Running")
    await run(driver, "Running", message="waiting")
    await run(driver, "Succeeded", finishedAt="2026-01-01T00:00:09Z", syncResult={"revision": "abc"})
    told = [event for event in driver.reports.of("app") if isinstance(event, SyncMoved)]
    assert [(event.phase, event.message) for event in told] == [
        ("Running", ""),
        ("Running", "waiting"),
        ("Succeeded", "waiting"),
    ]
    assert (told[-1].revision, told[-1].finished_at) == ("abc", "2026-01-01T00:00:09Z")


async def test_sync_when_its_application_is_not_there_yet_then_it_waits_and_is_acknowledged(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(sync_row())
    assert driver.acknowledged == [0]
    assert driver.cluster.writes() == []
    await driver.apply(application_row())
    assert driver.cluster.writes() == [("create", "app"), ("patch", "app")]


async def test_sync_when_another_application_of_its_tenant_hangs_then_it_does_not_wait_for_that(
    driver: Driver,
) -> None:
    await driver.begin(application_row("hanging"))
    going = {"finalizers": ["example.com/never"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    driver.cluster.edit("Application", "hanging", {"metadata": going})
    await settle()
    assert driver.instance.pending == 1
    await driver.apply(application_row(), sync_row())
    assert application(driver)["operation"]["info"] == OURS["info"]


async def test_sync_when_somebody_elses_runs_then_it_waits_for_its_end(driver: Driver) -> None:
    await driver.begin(application_row())
    await edit(driver, {"operation": THEIRS})
    await driver.apply(sync_row())
    assert application(driver)["operation"] == THEIRS
    await run(driver, "Running", THEIRS)
    assert application(driver)["operation"] == THEIRS
    await run(driver, "Succeeded", THEIRS)
    assert application(driver)["operation"]["info"] == OURS["info"]
    assert "operationState" not in application(driver)["status"]
    assert moves(driver) == []


async def test_sync_when_its_order_is_withdrawn_while_it_is_started_then_a_conflict_does_not_start_it(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    gate = driver.cluster.gates["app"] = asyncio.Event()
    await driver.apply(sync_row())
    driver.cluster.edit("Application", "app", {"metadata": {"annotations": {"somebody": "else"}}})
    await driver.apply(replace(sync_row(), deleted=True))
    gate.set()
    await settle()
    assert driver.defects == []
    assert "operation" not in application(driver)


async def test_sync_when_the_one_before_it_was_withdrawn_as_argocd_began_it_then_that_is_ended_first(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    taken_up = application(driver)["operation"]
    await driver.apply(sync_row(state="Terminated"))
    assert moves(driver) == [("run-1", "Terminated")]
    await edit(driver, {"status": {"operationState": {"operation": taken_up, "phase": "Running"}}})
    await driver.apply(sync_row("run-2", sequence=2))
    assert application(driver)["status"]["operationState"]["phase"] == "Terminating"
    assert application(driver)["operation"]["info"] == OURS["info"]
    await run(driver, "Failed", taken_up)
    assert application(driver)["operation"]["info"] == [{"name": "gitops-sync-run", "value": "run-2"}]


async def test_sync_when_everything_is_looked_at_again_then_it_is_not_started_again(driver: Driver) -> None:
    rows = [application_row(), sync_row()]
    await driver.begin(*rows)
    await run(driver, "Succeeded", finishedAt="2026-01-01T00:00:09Z")
    driver.cluster.calls.clear()
    await driver.apply(*rows)
    await driver.clock.advance(1000)
    await driver.instance.suspend()
    driver.instance.start_work(rows)
    await settle()
    assert driver.cluster.writes() == []
    assert set(moves(driver)) == {("run-1", "Succeeded")}


async def test_ended_sync_when_its_order_stands_then_its_end_is_told_with_each_comparison_and_its_progress_never(
    driver: Driver,
) -> None:
    await driver.begin(application_row(), application_row("other"))
    await driver.apply(sync_row(), sync_row("run-2", name="other"))
    await run(driver, "Succeeded", finishedAt="2026-01-01T00:00:09Z")
    state = {"operation": {"info": [{"name": "gitops-sync-run", "value": "run-2"}]}, "phase": "Running"}
    driver.cluster.edit("Application", "other", {"status": {"operationState": state}})
    await settle()
    for number in range(1, 4):
        assert moves(driver) == [("run-1", "Succeeded")] * number
        await driver.clock.advance(301)
    await driver.apply(replace(sync_row(), deleted=True))
    told = len(moves(driver))
    await driver.clock.advance(1000)
    assert len(moves(driver)) == told
    assert [event.phase for event in driver.reports.of("other") if isinstance(event, SyncMoved)] == ["Running"]


async def test_sync_when_our_picture_is_older_than_the_application_then_we_look_again(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.instance._working = False  # an event that has not come yet
    started = {"metadata": {"annotations": {SEQUENCE: "1"}}, "operation": OURS}
    driver.cluster.objects["Application", "app"] |= {"operation": OURS}
    driver.cluster._tell = lambda *_: None  # type: ignore[method-assign]
    driver.cluster.edit("Application", "app", started)
    driver.instance._working = True
    driver.cluster.calls.clear()
    await driver.apply(sync_row())
    assert driver.cluster.calls == [("patch", "app"), ("get", "app")]
    assert application(driver)["operation"] == OURS


async def test_sync_when_every_write_conflicts_then_it_is_left_to_the_backoff(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.cluster.refusing["app"] = Conflict("app")
    await driver.apply(sync_row())
    assert len(driver.cluster.writes()) < 10
    del driver.cluster.refusing["app"]
    await driver.clock.advance(30)
    assert application(driver)["operation"]["info"] == OURS["info"]


async def test_running_sync_when_it_shall_end_then_argo_cd_is_told_and_its_end_reported(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await run(driver, "Running")
    await driver.apply(sync_row(state="Terminated"))
    assert application(driver)["status"]["operationState"]["phase"] == "Terminating"
    await run(driver, "Failed", message="Operation terminated", finishedAt="2026-01-01T00:00:09Z")
    assert moves(driver) == [("run-1", "Running"), ("run-1", "Terminating"), ("run-1", "Failed")]


async def test_sync_when_it_shall_end_before_argo_cd_took_it_then_it_is_withdrawn(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row(), sync_row(state="Terminated"))
    assert "operation" not in application(driver)
    assert application(driver)["metadata"]["annotations"][SEQUENCE] == "1"
    assert moves(driver) == [("run-1", "Terminated")]


async def test_sync_when_its_run_has_vanished_then_nobody_looks_any_more(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await driver.apply(replace(sync_row(), deleted=True))
    await run(driver, "Running")
    assert moves(driver) == []
    assert driver.acknowledged == [0, 1]


async def test_syncs_when_one_follows_another_then_each_is_started_once(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await run(driver, "Succeeded")
    await driver.apply(replace(sync_row(), deleted=True), sync_row("run-2", 2))
    assert application(driver)["operation"]["info"][0]["value"] == "run-2"
    await run(driver, "Running")
    assert moves(driver) == [("run-1", "Succeeded"), ("run-2", "Running")]


async def test_running_sync_when_its_application_is_deleted_then_it_ends_and_is_not_started_anew(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await run(driver, "Running")
    driver.cluster.remove("Application", "app")
    await settle()
    assert "operation" not in application(driver)  # made anew by the repair
    [*_, last] = [event for event in driver.reports.of("app") if isinstance(event, SyncMoved)]
    assert (last.phase, last.message) == ("Error", DELETED)


async def test_begun_sync_when_its_application_goes_during_a_take_over_then_it_ends_and_is_not_started_anew(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await run(driver, "Running")
    await driver.instance.suspend()
    driver.cluster.remove("Application", "app")
    driver.cluster.calls.clear()
    driver.instance.start_work([application_row(), sync_row(begun=True)])
    await settle()
    assert driver.cluster.writes() == [("create", "app")]
    [*_, last] = [event for event in driver.reports.of("app") if isinstance(event, SyncMoved)]
    assert (last.phase, last.message) == ("Error", DELETED)
    await driver.clock.advance(1000)
    assert driver.cluster.writes() == [("create", "app")]


async def test_begun_sync_when_our_picture_lacks_it_then_the_application_itself_is_looked_at_first(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    driver.cluster._tell = lambda *_: None  # type: ignore[method-assign]  # the watch is behind
    started = {"metadata": {"annotations": {SEQUENCE: "1"}}, "operation": OURS}
    driver.cluster.edit("Application", "app", started)
    driver.cluster.calls.clear()
    await driver.apply(sync_row(begun=True))
    assert driver.cluster.calls == [("get", "app")]
    assert moves(driver) == []


async def test_application_when_it_is_repaired_while_it_syncs_then_its_operation_stays(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    await edit(driver, {"spec": {"source": {"path": "elsewhere", "targetRevision": "evil"}}})
    assert application(driver)["spec"]["source"]["path"] == "manifests"
    assert application(driver)["operation"]["info"] == OURS["info"]
    assert application(driver)["metadata"]["annotations"][SEQUENCE] == "1"


async def test_progress_when_the_log_is_behind_then_only_first_and_newest_are_sent(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row())
    driver.reports.behind = True
    for number in range(20):
        await run(driver, "Running", message=f"step {number}")
    driver.reports.catch_up()
    await settle()
    told = [event.message for event in driver.reports.of("app") if isinstance(event, SyncMoved)]
    assert told == ["step 0", "step 19"]


async def test_row_when_its_operation_is_not_understood_then_that_is_reported(driver: Driver) -> None:
    await driver.begin(application_row())
    await driver.apply(sync_row(state="Paused"))
    assert isinstance(driver.reports.of("app")[-1], Failed)
    assert driver.acknowledged == [0]


async def test_absent_sync_when_it_comes_then_there_is_nothing_to_do(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.cluster.calls.clear()
    await driver.apply(replace(sync_row(), desired="absent"))
    assert driver.cluster.calls == []
    assert driver.reports.of("app")[-1] == Removed(forced=False)
