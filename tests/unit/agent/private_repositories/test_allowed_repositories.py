"""Applications whose repository Argo CD must not be told to read, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from services.agent.instances.instance_controller import InstanceController
from services.common.messages import Applied, Failed, StatusReported
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import SETTINGS, FakeChecker, dependencies_of
from tests.unit.agent.rows import application_row, project_row
from tests.unit.fake_clock import settle

GOOD = "https://example.com/repo"
BAD = "http://169.254.169.254.nip.io/latest"
WHY = "names a host that cannot be used: the host is at an address that may not be reached from here"
TOLD = f"spec.source.repoURL {WHY}"
ROUND = 301
"""Seconds within which everything is compared."""


async def test_application_when_its_repository_is_refused_then_it_is_not_made_and_users_are_told_why(
    driver: Driver,
) -> None:
    driver.checker.refusals[BAD] = WHY
    await driver.begin()
    row = application_row(repoURL=BAD)
    await driver.apply(row)
    assert driver.cluster.writes() == []
    assert driver.reports.of("app") == [Failed(row.digest, permanent=True, message=TOLD, for_user=True)]
    assert driver.checker.judged == [(BAD, "local/team-a")]
    assert driver.acknowledged == [0]


async def test_application_when_it_is_turned_to_a_refused_repository_then_it_goes_on_with_the_former(
    driver: Driver,
) -> None:
    driver.checker.refusals[BAD] = WHY
    await driver.begin(application_row())
    driver.cluster.calls.clear()
    await driver.apply(application_row(repoURL=BAD))
    assert driver.cluster.writes() == []
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["repoURL"] == GOOD
    await driver.apply(application_row(path="elsewhere"))
    assert driver.cluster.writes() == [("apply", "app")]


async def test_application_when_it_is_not_known_where_its_repository_is_then_it_waits_and_others_do_not(
    driver: Driver,
) -> None:
    slow = "https://slow.example.com/repo"
    gate = driver.checker.gates[slow] = asyncio.Event()
    await driver.begin()
    await driver.apply(
        *(application_row(f"app-{number}", repoURL=slow) for number in range(20)), application_row(), project_row()
    )
    assert sorted(driver.cluster.writes()) == [("create", "app"), ("create", "project")]
    assert driver.acknowledged == []  # in order: the first still waits
    gate.set()
    await settle()
    assert len(driver.cluster.names("Application")) == 21
    assert driver.acknowledged == list(range(22))
    assert len(driver.checker.judged) == 2


async def test_application_when_it_reads_the_repository_already_then_changes_do_not_wait_for_the_answer(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    await driver.instance.suspend()
    driver.checker.gates[GOOD] = asyncio.Event()
    driver.instance.start_work([application_row(path="elsewhere")])
    await settle()
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["path"] == "elsewhere"


async def test_application_when_its_repository_is_known_then_nobody_is_asked(driver: Driver) -> None:
    await driver.begin(application_row())
    asked = list(driver.checker.judged)
    await driver.apply(application_row(path="elsewhere"), application_row("other"))
    assert driver.checker.judged == asked


async def test_application_when_its_host_leads_inwards_later_then_it_is_told_and_applied_no_more(
    driver: Driver,
) -> None:
    row = application_row()
    await driver.begin(row)
    driver.checker.refusals[GOOD] = WHY
    await driver.clock.advance(ROUND)
    assert driver.reports.of("app")[-1] == Failed(row.digest, permanent=True, message=TOLD, for_user=True)
    driver.cluster.calls.clear()
    driver.cluster.edit("Application", "app", {"spec": {"source": {"path": "elsewhere"}}})
    driver.cluster.remove("Application", "app")
    await driver.clock.advance(ROUND)
    assert driver.cluster.writes() == []


async def test_application_when_nothing_is_against_its_repository_any_more_then_it_is_made_and_told(
    driver: Driver,
) -> None:
    driver.checker.refusals[GOOD] = WHY
    row = application_row()
    await driver.begin(row)
    assert driver.cluster.names("Application") == []
    driver.checker.refusals.clear()
    await driver.clock.advance(ROUND)
    assert driver.cluster.names("Application") == ["app"]
    assert Applied(row.digest) in driver.reports.of("app")


async def test_application_when_taken_over_as_it_should_be_then_its_repository_is_looked_at_all_the_same(
    driver: Driver,
) -> None:
    row = application_row()
    await driver.begin(row)
    await driver.instance.suspend()
    driver.checker.refusals[GOOD] = WHY
    driver.instance.start_work([row])
    await settle()
    assert driver.reports.of("app")[-1] == Failed(row.digest, permanent=True, message=TOLD, for_user=True)


async def test_refused_application_when_it_is_to_go_then_it_goes(driver: Driver) -> None:
    await driver.begin(application_row())
    driver.checker.refusals[GOOD] = WHY
    await driver.clock.advance(ROUND)
    await driver.apply(application_row(desired="absent"))
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.cluster.names("Application") == []


async def test_repository_when_nobody_reads_it_any_more_then_it_is_not_looked_at_again(driver: Driver) -> None:
    gone = application_row("gone", repoURL=BAD)
    await driver.begin(application_row(), gone)
    await driver.apply(application_row("gone", desired="absent"), replace(gone, deleted=True))
    driver.checker.judged.clear()
    await driver.clock.advance(ROUND)
    assert driver.checker.judged == [(GOOD, "local/team-a")]


async def test_suspended_instance_when_somebody_is_asked_then_that_ends(driver: Driver) -> None:
    driver.checker.gates[GOOD] = asyncio.Event()
    await driver.begin(application_row())
    assert driver.checker.in_flight == 1
    await driver.instance.suspend()
    assert driver.checker.in_flight == 0


@pytest.mark.parametrize("is_another_agent", [True, False])
async def test_application_when_its_repository_was_refused_under_a_former_owner_then_its_success_is_reported(
    driver: Driver, is_another_agent: bool
) -> None:
    row = application_row()
    await driver.begin(row)
    driver.reports.sent.clear()
    await driver.instance.suspend()  # meanwhile another agent reports that the repository is refused
    instance = driver.instance
    if is_another_agent:
        dependencies = dependencies_of(
            driver.cluster, FakeChecker(), driver.reports, driver.clock, driver.defects.append, driver.engine
        )
        instance = InstanceController("argocd", "argocd", dependencies, SETTINGS)
        instance.start()
    instance.start_work([row])
    await settle()
    await driver.clock.advance(2 * ROUND)
    assert driver.reports.of("app").count(Applied(row.digest)) == 1
    await instance.stop()


async def test_application_when_its_repository_is_refused_still_after_a_take_over_then_no_success_is_reported_between(
    driver: Driver,
) -> None:
    await driver.begin(application_row())
    await driver.instance.suspend()
    driver.reports.sent.clear()
    driver.checker.refusals[GOOD] = WHY
    driver.instance.start_work([application_row()])
    await settle()
    await driver.clock.advance(ROUND)
    assert {type(event) for event in driver.reports.of("app")} - {StatusReported} == {Failed}
