"""An Application that is given up while a run of it is ordered: what is told of the run before the Application goes.

The planner orders on another instance what has not begun, once it hears that the Application is gone.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from services.agent.objects.live_operation import RUN_INFO
from services.agent.observe.observation_sink import AGAIN_SECONDS
from services.agent.reconcile.reconciler import REPORT_PATIENCE
from services.agent.reconcile.sync_steps import DELETED, LOST, SYNC_SEQUENCE
from services.common.json_values import canonical
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource, Removed, SyncMoved
from services.common.messages.compiled import AT_ONCE, RELEASE
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, sync_row
from tests.unit.fake_clock import settle

OURS = {"sync": {"revision": "main"}, "info": [{"name": RUN_INFO, "value": "run-1"}]}
ROW = application_row()
MADE: Manifest = json.loads(ROW.manifest)
RELEASED = replace(ROW, manifest=canonical(MADE | {RELEASE: True, AT_ONCE: True}), digest="released")
SECOND = REPORT_PATIENCE.total_seconds()


def exists(driver: Driver, sequence: int = 0, **fields: Any) -> None:
    """The Application is there, as an agent before this one and Argo CD have left it."""
    given = {"annotations": {SYNC_SEQUENCE: str(sequence)}} if sequence else {}
    driver.cluster.put("Application", "app", MADE | fields | {"metadata": MADE["metadata"] | given})


def state(phase: str, **more: Any) -> Manifest:
    return {"operationState": {"operation": OURS, "phase": phase} | more}


def told(driver: Driver) -> list[str]:
    """Of the run and of the Application's end, in their order."""
    events = [event for event in driver.reports.of("app") if isinstance(event, SyncMoved | Removed)]
    return [event.phase if isinstance(event, SyncMoved) else "Removed" for event in events]


async def take_over(driver: Driver, *rows: EngineResource) -> None:
    """Nothing is listed yet."""
    driver.cluster.listing.clear()
    await driver.begin(*rows)
    await settle()


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({"operation": OURS}, "Running"),
        ({"operation": OURS, "status": state("Running")}, "Running"),
        ({"status": state("Succeeded", finishedAt="2026-01-01T00:00:09Z")}, "Succeeded"),
        ({}, "Error"),
    ],
    ids=["given and not begun", "begun", "ended", "another operation has taken its place"],
)
async def test_application_when_a_former_agent_has_given_it_a_run_then_that_is_told_before_it_is_taken_away(
    driver: Driver, fields: Manifest, phase: str
) -> None:
    exists(driver, sequence=1, **fields)
    await take_over(driver, RELEASED, sync_row())
    assert (told(driver), driver.cluster.names("Application")) == ([phase], ["app"])
    await driver.clock.advance(SECOND)
    assert (told(driver), driver.cluster.names("Application")) == ([phase], [])
    driver.cluster.listing.set()
    await driver.clock.until(lambda: "Removed" in told(driver))
    before_its_end = told(driver)[: told(driver).index("Removed")]
    assert set(before_its_end) == {phase}


async def test_application_when_its_run_has_lost_its_operation_then_that_is_what_is_told(driver: Driver) -> None:
    exists(driver, sequence=1)
    await take_over(driver, RELEASED, sync_row())
    (moved,) = driver.reports.of("app")
    assert isinstance(moved, SyncMoved)
    assert moved.message == LOST


@pytest.mark.parametrize("sequence", [0, 1], ids=["no run at all", "a run before it"])
async def test_application_when_it_was_never_given_its_run_then_nothing_is_told_of_that(
    driver: Driver, sequence: int
) -> None:
    """So that another instance starts it."""
    exists(driver, sequence=sequence)
    await take_over(driver, RELEASED, sync_row("run-2", 2))
    driver.cluster.listing.set()
    await driver.clock.advance(SECOND)
    assert (told(driver), driver.cluster.names("Application")) == (["Removed"], [])


async def test_application_when_the_same_agent_has_given_it_a_run_then_that_is_told_before_it_is_taken_away(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(ROW, sync_row())
    assert told(driver) == []
    await driver.apply(RELEASED)
    await driver.clock.advance(SECOND)
    assert told(driver)[:2] == ["Running", "Removed"]


async def test_application_when_what_is_told_of_its_run_is_lost_then_it_stays_until_that_is_told_again(
    driver: Driver,
) -> None:
    exists(driver, sequence=1, operation=OURS)
    driver.reports.behind = True
    await driver.begin(RELEASED, sync_row())
    await driver.clock.advance(10 * SECOND)
    assert (told(driver), driver.cluster.names("Application")) == (["Running"], ["app"])
    driver.reports.catch_up(arrived=False)
    await driver.clock.advance(AGAIN_SECONDS + SECOND)
    assert (told(driver)[:3], driver.cluster.names("Application")) == (["Running", "Running", "Removed"], [])


async def test_run_when_it_goes_on_while_that_is_told_then_its_application_does_not_wait_for_what_is_said_meanwhile(
    driver: Driver,
) -> None:
    """Argo CD says something else of it with each resource."""
    exists(driver, sequence=1, operation=OURS, status=state("Running"))
    driver.reports.behind = True
    await driver.begin(RELEASED, sync_row())
    driver.cluster.edit("Application", "app", {"status": state("Running", message="one of two")})
    driver.reports.catch_up()
    await driver.clock.advance(SECOND)
    assert (told(driver)[:2], driver.cluster.names("Application")) == (["Running", "Removed"], [])


async def test_run_when_it_ends_as_its_application_is_taken_away_then_its_end_is_told_before_that(
    driver: Driver,
) -> None:
    exists(driver, sequence=1, operation=OURS, status=state("Running"))
    gate = driver.cluster.gates["app"] = asyncio.Event()
    await driver.begin(RELEASED, sync_row())
    await driver.clock.advance(SECOND)
    assert driver.cluster.calls[-1] == ("delete", "app")
    ended = state("Succeeded", finishedAt="2026-01-01T00:00:09Z")
    driver.cluster.edit("Application", "app", {"operation": None, "status": ended})
    gate.set()
    await driver.clock.until(lambda: driver.cluster.names("Application") == [])
    await settle()
    assert (told(driver), driver.cluster.names("Application")) == (["Running", "Succeeded", "Removed"], [])


async def test_run_when_it_was_under_way_then_it_ends_once_its_application_is_gone(driver: Driver) -> None:
    exists(driver, sequence=1, operation=OURS, status=state("Running"))
    await driver.begin(RELEASED, sync_row())
    await driver.clock.advance(SECOND)
    assert told(driver) == ["Running", "Removed", "Error"]
    last = driver.reports.of("app")[-1]
    assert isinstance(last, SyncMoved)
    assert last.message == DELETED


async def test_application_when_its_run_cannot_be_read_then_it_goes_all_the_same(driver: Driver) -> None:
    """A newer planner may order what this agent does not know; the move would never get on."""
    exists(driver, sequence=1, operation=OURS)
    await take_over(driver, RELEASED, sync_row(state="Suspended"))
    assert driver.cluster.names("Application") == []


async def test_application_when_its_run_is_withdrawn_then_nothing_is_told_of_it(driver: Driver) -> None:
    exists(driver, sequence=1, operation=OURS)
    await take_over(driver, RELEASED, replace(sync_row(), desired="absent"))
    assert driver.cluster.names("Application") == []
