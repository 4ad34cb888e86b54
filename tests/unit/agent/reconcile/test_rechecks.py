"""Credentials are tried again and again, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.agent.credentials.check_result import CheckResult
from services.agent.settings import AgentSettings
from services.common.messages import Applied, Checked, EngineResource
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import SETTINGS
from tests.unit.agent.rows import cluster_row, repository_row

INTERVAL = SETTINGS.check_interval_seconds
REFUSED = CheckResult(None, "InvalidCredentials", "refused")
ROWS = pytest.mark.parametrize("row", [cluster_row(), repository_row()], ids=lambda row: row.kind)


def test_interval_when_nothing_else_is_set_then_it_is_ten_minutes() -> None:
    assert AgentSettings.model_fields["check_interval_seconds"].default == timedelta(minutes=10).total_seconds()


@ROWS
async def test_credentials_when_the_interval_has_passed_then_they_are_tried_again_and_not_before(
    driver: Driver, row: EngineResource
) -> None:
    await driver.begin()
    await driver.apply(row)
    tried = []
    for seconds in (INTERVAL - 1, 2, INTERVAL - 2, 2):
        await driver.clock.advance(seconds)
        tried.append(len(driver.checker.composed))
    assert tried == [1, 2, 2, 3]


@ROWS
async def test_credentials_when_they_stop_working_then_it_is_told_after_the_interval_and_so_is_their_recovery(
    driver: Driver, row: EngineResource
) -> None:
    await driver.begin()
    await driver.apply(row)
    works, made = driver.reports.of(row.name)
    driver.checker.outcomes[row.name] = REFUSED
    await driver.clock.advance(INTERVAL + 1)
    del driver.checker.outcomes[row.name]
    await driver.clock.advance(INTERVAL + 1)
    fails = Checked(row.digest, REFUSED.reason, REFUSED.message)
    assert driver.reports.of(row.name) == [works, made, fails, works]
    assert made == Applied(row.digest)


async def test_outcomes_when_they_stay_the_same_then_each_is_told_again_once_an_hour_or_less_and_not_all_together(
    driver: Driver,
) -> None:
    names = [f"managed-env-{number}" for number in range(20)]
    await driver.begin(*(cluster_row(name) for name in names))
    driver.reports.sent.clear()
    await driver.clock.advance(3590)
    assert driver.reports.sent == []
    together = []
    for _ in range(13):
        known = len(driver.reports.sent)
        await driver.clock.advance(300)
        together.append(len(driver.reports.sent) - known)
    assert sorted(name for name, _ in driver.reports.sent) == sorted(names)
    assert {type(event) for _, event in driver.reports.sent} == {Checked}
    assert max(together) < len(names) / 2
