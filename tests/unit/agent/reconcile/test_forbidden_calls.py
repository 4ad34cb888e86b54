"""Rights that are gone for a while: what was to be done meanwhile is done, and told, when they are back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.common.errors import Retry
from services.common.kubernetes import Rejected
from services.common.kubernetes.access import GRACE_SECONDS
from services.common.messages import EngineResource, Failed, Removed
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import SETTINGS
from tests.unit.agent.reconcile.test_release import released
from tests.unit.agent.rows import application_row, repository_row, sync_row

FORBIDDEN = Rejected("user agent may not", 403)
COMPARED = 301
APPLICATION, REPOSITORY = application_row(), repository_row()
APPLICATIONS = [
    pytest.param(replace(APPLICATION, desired="absent"), id="deleted"),
    pytest.param(released(APPLICATION), id="given up"),
]
GOING = [*APPLICATIONS, pytest.param(replace(REPOSITORY, desired="absent"), id="login")]


def refused(driver: Driver) -> list[Failed]:
    return [event for event in driver.reports.of("app") if isinstance(event, Failed)]


@pytest.mark.parametrize("row", GOING)
async def test_removal_when_it_is_forbidden_for_a_moment_then_nothing_is_told_but_the_removal(
    driver: Driver, row: EngineResource
) -> None:
    await driver.begin()
    driver.cluster.failing = FORBIDDEN
    await driver.apply(row)
    await driver.clock.advance(GRACE_SECONDS / 3)
    assert driver.reports.of(row.name) == []
    driver.cluster.failing = None
    await driver.clock.advance(GRACE_SECONDS)
    assert driver.reports.of(row.name) == [Removed(forced=False)]
    assert driver.acknowledged == [0]


@pytest.mark.parametrize("row", APPLICATIONS)
async def test_removal_when_it_was_refused_then_it_is_told_once_it_is_found_to_be_gone(
    driver: Driver, row: EngineResource
) -> None:
    await driver.begin()
    driver.cluster.failing = FORBIDDEN
    await driver.apply(row)
    await driver.clock.advance(2 * GRACE_SECONDS)
    assert [type(event) for event in driver.reports.of(row.name)] == [Failed]
    driver.cluster.failing = None
    await driver.clock.advance(3 * COMPARED)
    assert driver.reports.of(row.name)[1:] == [Removed(forced=False)]


@pytest.mark.parametrize("row", GOING)
async def test_removal_when_the_agent_before_may_have_been_refused_it_then_it_is_told_once(
    driver: Driver, row: EngineResource
) -> None:
    await driver.begin(row)
    await driver.clock.advance(3 * COMPARED)
    assert driver.reports.of(row.name) == [Removed(forced=False)]


async def test_removal_when_its_observation_is_lost_then_it_is_told_again(driver: Driver) -> None:
    row = replace(APPLICATION, desired="absent")
    driver.reports.behind = True
    await driver.begin(row)
    driver.reports.catch_up(arrived=False)
    await driver.clock.advance(COMPARED)
    assert driver.reports.of(row.name) == [Removed(forced=False)] * 2


async def test_sync_when_it_is_forbidden_for_a_moment_then_it_begins_when_it_is_not(driver: Driver) -> None:
    await driver.begin(APPLICATION)
    driver.cluster.refusing["app"] = FORBIDDEN
    await driver.apply(sync_row())
    await driver.clock.advance(GRACE_SECONDS / 3)
    del driver.cluster.refusing["app"]
    await driver.clock.advance(GRACE_SECONDS)
    assert "operation" in driver.cluster.objects["Application", "app"]
    assert refused(driver) == []


async def test_sync_when_it_is_forbidden_each_time_that_the_api_server_starts_then_it_begins_when_it_is_not(
    driver: Driver,
) -> None:
    await driver.begin(APPLICATION)
    driver.cluster.refusing["app"] = FORBIDDEN
    await driver.apply(sync_row())
    for _ in range(3):
        driver.cluster.refusing["app"] = FORBIDDEN
        await driver.clock.advance(GRACE_SECONDS * 0.6)
        driver.cluster.refusing["app"] = Retry("away")
        await driver.clock.advance(3 * GRACE_SECONDS)
    del driver.cluster.refusing["app"]
    await driver.clock.advance(GRACE_SECONDS)
    assert "operation" in driver.cluster.objects["Application", "app"]
    assert refused(driver) == []


async def test_sync_when_it_stays_forbidden_then_its_run_fails(driver: Driver) -> None:
    await driver.begin(APPLICATION)
    driver.cluster.refusing["app"] = FORBIDDEN
    await driver.apply(sync_row())
    await driver.clock.advance(2 * GRACE_SECONDS)
    assert len(refused(driver)) == 1


async def test_login_when_its_secret_may_not_be_read_for_a_moment_then_it_is_checked_when_it_may(
    driver: Driver,
) -> None:
    await driver.begin()
    driver.cluster.failing = FORBIDDEN
    await driver.apply(REPOSITORY)
    await driver.clock.advance(GRACE_SECONDS / 3)
    assert driver.reports.of(REPOSITORY.name) == []
    driver.cluster.failing = None
    await driver.clock.advance(GRACE_SECONDS)
    assert driver.cluster.names("Secret") == [REPOSITORY.name]


async def test_login_when_its_secret_could_not_be_read_then_it_is_tried_again_soon(driver: Driver) -> None:
    await driver.begin()
    driver.cluster.failing = FORBIDDEN
    await driver.apply(REPOSITORY)
    await driver.clock.advance(3 * GRACE_SECONDS)
    assert [type(event) for event in driver.reports.of(REPOSITORY.name)] == [Failed]
    driver.cluster.failing = None
    await driver.clock.advance(SETTINGS.failed_check_interval_seconds)
    assert driver.cluster.names("Secret") == [REPOSITORY.name]
