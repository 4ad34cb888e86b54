"""When the status of an Application is reported: at once, or after what Argo CD says while it works."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.common.messages import EngineResource, StatusReported
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, row
from tests.unit.fake_clock import settle

SYNC = {"sync": {"revision": "second"}}
OUT_OF_SYNC = {"sync": {"status": "OutOfSync"}}
RUNNING = {"operationState": {"phase": "Running", "operation": SYNC, "finishedAt": None, "message": None}}
WORKING = {"operationState": {"phase": "Running", "message": "one or more tasks are running"}}
UNCHANGED = {"operationState": {"phase": "Running", "message": "unchanged"}}
ENDED = {
    "operationState": {"phase": "Succeeded", "operation": SYNC, "finishedAt": "2026-01-01T00:00:00Z", "message": "ok"}
}
WAITING = {"operationState": {"phase": "Running", "finishedAt": "2026-01-01T00:00:00Z", "message": "no"}}
SYNCED = {"sync": {"status": "Synced"}}
HEALTHY = {"health": {"status": "Healthy"}}

BEGUN: dict[str, Any] = {"operation": SYNC}
CHATTER: tuple[dict[str, Any], ...] = (
    {"status": OUT_OF_SYNC | {"health": {"status": "Missing"}}},
    BEGUN,
    {"status": RUNNING},
    {"status": WORKING},
    {"status": ENDED, "operation": None},
    {"status": HEALTHY},
    BEGUN | {"status": {"operationState": None}},
    {"status": RUNNING},
    {"status": UNCHANGED},
    {"status": ENDED, "operation": None},
    {"status": SYNCED},
    {"status": {"reconciledAt": "2026-01-01T00:00:01Z"}},
)
"""An automated sync of real Argo CD, which at once syncs what it has made a second time."""


def automated_row() -> EngineResource:
    spec = orjson.loads(application_row().manifest)["spec"] | {"syncPolicy": {"automated": {}}}
    return row("Application", "app", "present", "project", 1, {"spec": spec, "metadata": {}})


async def begun(driver: Driver, made: EngineResource) -> None:
    await driver.begin(made)
    driver.reports.sent.clear()


async def edit(driver: Driver, *statuses: dict[str, Any]) -> None:
    for status in statuses:
        driver.cluster.edit("Application", "app", {"status": status})
        await settle()


def reported(driver: Driver) -> list[dict[str, Any]]:
    return [orjson.loads(event.status) for event in driver.reports.of("app") if isinstance(event, StatusReported)]


def phases(driver: Driver) -> list[str]:
    return [status.get("operationState", {}).get("phase", "") for status in reported(driver)]


@pytest.mark.parametrize("gap", [0.05, 0.1, 0.3, 0.5, 0.7, 1.0])
async def test_status_when_argocd_syncs_however_slowly_then_most_of_what_it_says_is_not_reported(
    driver: Driver, gap: float
) -> None:
    await begun(driver, automated_row())
    for said in CHATTER:
        driver.cluster.edit("Application", "app", said)
        await driver.clock.advance(gap)
    await driver.clock.advance(10)
    assert len(reported(driver)) <= 3
    assert reported(driver)[-1] == {"sync": {"status": "Synced"}, **HEALTHY, **ENDED}


async def test_status_when_argocd_syncs_quickly_then_only_the_end_is_reported(driver: Driver) -> None:
    await begun(driver, application_row())
    await edit(driver, OUT_OF_SYNC, RUNNING, ENDED, SYNCED)
    await driver.clock.advance(10)
    assert [(status["sync"]["status"], status["operationState"]["phase"]) for status in reported(driver)] == [
        ("Synced", "Succeeded")
    ]


async def test_status_when_a_sync_takes_long_then_its_newest_state_is_reported_meanwhile(driver: Driver) -> None:
    await begun(driver, application_row())
    await edit(driver, OUT_OF_SYNC, RUNNING)
    assert reported(driver) == []
    await driver.clock.advance(0.5)
    assert phases(driver) == ["Running"]
    await edit(driver, WORKING)
    await driver.clock.advance(4.9)
    assert phases(driver) == ["Running"]
    await driver.clock.advance(0.1)
    assert [status["operationState"].get("message") for status in reported(driver)] == [
        None,
        "one or more tasks are running",
    ]


async def test_status_when_a_sync_ends_while_a_report_waits_then_the_end_is_reported_at_once(driver: Driver) -> None:
    await begun(driver, automated_row())
    await edit(driver, OUT_OF_SYNC, RUNNING)
    await driver.clock.advance(0.5)
    await edit(driver, WORKING, ENDED, SYNCED)
    assert phases(driver) == ["Running", "Succeeded"]
    await driver.clock.advance(10)
    assert phases(driver) == ["Running", "Succeeded"]


async def test_status_when_an_attempt_to_sync_fails_then_that_is_reported_at_once(driver: Driver) -> None:
    await begun(driver, automated_row())
    await edit(driver, OUT_OF_SYNC, RUNNING, WAITING)
    assert [status["operationState"].get("message") for status in reported(driver)] == ["no"]
    await edit(driver, RUNNING, WAITING | {"operationState": WAITING["operationState"] | {"message": "still no"}})
    assert [status["operationState"].get("message") for status in reported(driver)] == ["no", "still no"]


@pytest.mark.parametrize("automated", [True, False])
async def test_status_when_nothing_is_synced_then_it_is_out_of_sync_all_the_same(
    driver: Driver, automated: bool
) -> None:
    await begun(driver, automated_row() if automated else application_row())
    await edit(driver, OUT_OF_SYNC)
    await driver.clock.advance(0.5)
    assert [status["sync"]["status"] for status in reported(driver)] == ["OutOfSync"]


async def test_status_when_a_manual_sync_leaves_it_out_of_sync_then_its_end_does_not_wait_for_the_next_turn(
    driver: Driver,
) -> None:
    await begun(driver, application_row())
    await edit(driver, OUT_OF_SYNC, RUNNING)
    await driver.clock.advance(0.5)
    await edit(driver, WORKING, ENDED)
    await driver.clock.advance(0.5)
    assert phases(driver) == ["Running", "Succeeded"]


async def test_status_when_argocd_only_compares_then_nothing_is_reported(driver: Driver) -> None:
    await begun(driver, automated_row())
    await edit(driver, ENDED | SYNCED)
    driver.reports.sent.clear()
    for second in range(10):
        await edit(driver, {"reconciledAt": f"2026-01-01T00:00:{second:02}Z"})
        await driver.clock.advance(1)
    assert reported(driver) == []


async def test_status_when_it_changes_while_a_report_is_on_its_way_then_it_waits_all_the_same(driver: Driver) -> None:
    await begun(driver, automated_row())
    await edit(driver, OUT_OF_SYNC, RUNNING)
    driver.reports.behind = True
    await driver.clock.advance(0.5)
    await edit(driver, WORKING)
    driver.reports.catch_up()
    await settle()
    assert len(reported(driver)) == 1
    await driver.clock.advance(5)
    assert len(reported(driver)) == 2


async def test_status_when_it_waits_and_the_instance_is_given_up_then_it_is_not_reported(driver: Driver) -> None:
    await begun(driver, application_row())
    await edit(driver, OUT_OF_SYNC)
    await driver.instance.suspend()
    await driver.clock.advance(10)
    assert reported(driver) == []


async def test_status_when_it_is_delivered_after_the_instance_was_lost_then_it_is_reported_again_once_that_is_back(
    driver: Driver,
) -> None:
    await begun(driver, application_row())
    driver.reports.behind = True
    await edit(driver, SYNCED)
    await driver.instance.suspend()
    driver.reports.catch_up()
    driver.reports.sent.clear()
    driver.instance.start_work([application_row()])
    await settle()
    [again] = [event for event in driver.reports.of("app") if isinstance(event, StatusReported)]
    assert "Synced" in again.status
