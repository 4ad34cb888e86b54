"""When the status of an Application is reported: at once, or after what Argo CD says while it works."""

from __future__ import annotations

from typing import Any

import orjson

from services.common.messages import StatusReported
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import settle
from tests.unit.agent.rows import application_row

SYNC = {"sync": {"revision": "second"}}
OUT_OF_SYNC = {"sync": {"status": "OutOfSync"}}
RUNNING = {"operationState": {"phase": "Running", "operation": SYNC, "finishedAt": None}}
ENDED = {"operationState": {"phase": "Succeeded", "operation": SYNC, "finishedAt": "2026-01-01T00:00:00Z"}}
SYNCED = {"sync": {"status": "Synced"}}


def edit(driver: Driver, status: dict[str, Any]) -> None:
    driver.cluster.edit("Application", "app", {"status": status})


def reported(driver: Driver) -> list[dict[str, Any]]:
    return [orjson.loads(event.status) for event in driver.reports.of("app") if isinstance(event, StatusReported)]


async def test_status_when_argocd_syncs_quickly_then_only_the_end_is_reported(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    for status in (OUT_OF_SYNC, RUNNING, ENDED, SYNCED):
        edit(driver, status)
        await settle()
    await driver.clock.advance(10)
    assert [(status["sync"]["status"], status["operationState"]["phase"]) for status in reported(driver)] == [
        ("Synced", "Succeeded")
    ]


async def test_status_when_a_sync_takes_long_then_its_newest_state_is_reported_meanwhile(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    for status in (OUT_OF_SYNC, RUNNING):
        edit(driver, status)
        await settle()
    assert reported(driver) == []
    await driver.clock.advance(0.5)
    assert [status["operationState"]["phase"] for status in reported(driver)] == ["Running"]


async def test_status_when_nothing_will_be_synced_then_it_is_out_of_sync_all_the_same(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    edit(driver, OUT_OF_SYNC)
    await settle()
    await driver.clock.advance(0.5)
    assert [status["sync"]["status"] for status in reported(driver)] == ["OutOfSync"]


async def test_status_when_it_waits_and_the_instance_is_given_up_then_it_is_not_reported(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.reports.sent.clear()
    edit(driver, OUT_OF_SYNC)
    await settle()
    await driver.instance.suspend()
    await driver.clock.advance(10)
    assert reported(driver) == []
