"""What goes ahead of the comparison that a take-over begins with, and what waits for it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from services.agent.instances.instance_controller import REPORTS_AT_ONCE, REPORTS_PAUSE_SECONDS
from services.agent.reconcile.instance_workers import PAUSE_LIMIT_SECONDS
from services.common.errors import Retry
from services.common.json_values import canonical
from services.common.messages import Applied, EngineResource, Removed
from services.common.messages.compiled import AT_ONCE, RELEASE
from services.common.queueing import SLICE
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, cluster_row, project_row, repository_row
from tests.unit.fake_clock import settle

OTHER_REPOSITORY = "https://example.com/other"

WAITING = {
    "deletion": ([application_row()], application_row(desired="absent")),
    "deletion of a cluster": ([cluster_row()], cluster_row(desired="absent")),
    "login of a cluster": ([], cluster_row()),
    "login of a repository": ([], repository_row()),
    "Application of a tenant with a login": ([repository_row(repository=OTHER_REPOSITORY)], application_row("new")),
}


async def take_over(driver: Driver, *rows: EngineResource) -> None:
    """Own the instance, of which these rows were loaded; the API server does not list yet what exists."""
    driver.cluster.listing.clear()
    await driver.begin(*rows)


async def list_everything(driver: Driver) -> None:
    driver.cluster.listing.set()
    await settle()


async def test_row_when_it_is_newer_than_what_was_loaded_then_it_does_not_wait_for_the_list(driver: Driver) -> None:
    await take_over(driver, application_row("old"))
    row = application_row("new")
    await driver.apply(row)
    assert driver.cluster.calls == [("create", "new")]
    assert driver.reports.of("new") == [Applied(row.digest)]
    assert driver.acknowledged == [0]
    await list_everything(driver)
    assert driver.cluster.names("Application") == ["new", "old"]


async def test_row_when_its_object_exists_but_is_not_listed_yet_then_that_is_changed(driver: Driver) -> None:
    existing = application_row()
    driver.cluster.put("Application", existing.name, {"spec": {"project": "project"}})
    await take_over(driver, existing)
    await driver.apply(application_row(path="elsewhere"))
    assert driver.cluster.calls == [("create", "app"), ("get", "app"), ("apply", "app")]
    assert driver.cluster.objects["Application", "app"]["spec"]["source"]["path"] == "elsewhere"


async def test_row_when_the_project_of_its_tenant_was_loaded_then_that_goes_first(driver: Driver) -> None:
    await take_over(driver, project_row(), application_row("old"))
    await driver.apply(application_row("new"))
    assert driver.cluster.calls == [("create", "project"), ("create", "new")]


async def test_row_when_it_was_loaded_and_is_sent_again_then_it_waits_for_the_list(driver: Driver) -> None:
    await take_over(driver, application_row())
    await driver.apply(application_row())
    assert driver.cluster.calls == []
    await list_everything(driver)
    assert driver.cluster.calls == [("create", "app")]
    assert driver.acknowledged == [0]


@pytest.mark.parametrize(("loaded", "row"), WAITING.values(), ids=WAITING)
async def test_row_when_it_depends_on_what_exists_then_it_waits_for_the_list(
    driver: Driver, loaded: list[EngineResource], row: EngineResource
) -> None:
    await take_over(driver, *loaded)
    await driver.apply(row)
    assert (driver.cluster.calls, driver.checker.composed, driver.checker.disposed) == ([], [], [])
    await list_everything(driver)
    assert driver.acknowledged == [0]


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_object_when_it_goes_at_any_moment_of_a_takeover_then_it_is_made_again(
    driver: Driver, turns: int
) -> None:
    rows = [application_row(f"app-{number}") for number in range(3 * SLICE)]
    name = rows[SLICE + 1].name
    await driver.begin(*rows)
    await driver.clock.advance(1)
    await driver.instance.suspend()
    driver.instance.start_work(rows)
    for _ in range(turns):
        await asyncio.sleep(0)
    driver.cluster.remove("Application", name)
    await settle()
    assert name in driver.cluster.names("Application")


async def test_rows_when_all_are_as_desired_then_they_are_reported_at_a_pace_and_changes_at_once(
    driver: Driver,
) -> None:
    rows = [application_row(f"app-{number}") for number in range(3 * REPORTS_AT_ONCE)]
    await driver.begin(*rows)
    await driver.clock.advance(1)
    await driver.instance.suspend()
    driver.reports.sent.clear()
    driver.instance.start_work(rows)
    await settle()
    assert len({name for name, _ in driver.reports.sent}) == REPORTS_AT_ONCE
    await driver.apply(application_row("new"))
    assert driver.reports.of("new") != []
    await driver.clock.advance(3 * REPORTS_PAUSE_SECONDS)
    assert all(driver.reports.of(row.name) for row in rows)


def given_up(driver: Driver, name: str) -> EngineResource:
    """The row of an Application that exists, and that another instance has by now."""
    driver.cluster.put("Application", name, {"metadata": {"finalizers": ["cascade"]}, "spec": {"project": "p"}})
    row = application_row(name, desired="absent")
    return replace(row, manifest=canonical(json.loads(row.manifest) | {AT_ONCE: True, RELEASE: True}))


async def test_applications_when_another_instance_has_them_by_now_then_they_go_before_anything_is_listed(
    driver: Driver,
) -> None:
    """Their Argo CD, which is back, too, may do something with them at any moment."""
    await take_over(driver, application_row("kept"), given_up(driver, "given-up"))
    await settle()
    assert driver.cluster.names("Application") == []
    assert driver.reports.of("kept") == []
    await list_everything(driver)
    assert driver.reports.of("given-up") == [Removed(forced=False)]


@pytest.mark.parametrize("loaded", [[application_row()], [application_row(), repository_row()], []])
async def test_application_when_it_is_given_up_after_what_was_loaded_then_it_goes_before_anything_is_listed(
    driver: Driver, loaded: list[EngineResource]
) -> None:
    await take_over(driver, *loaded)
    await driver.apply(given_up(driver, "app"))
    assert driver.cluster.names("Application") == []
    await list_everything(driver)
    assert driver.reports.of("app") == [Removed(forced=False)]
    assert driver.acknowledged == [0]


async def test_application_when_it_is_given_up_while_a_change_of_it_waits_then_only_the_former_is_done(
    driver: Driver,
) -> None:
    """The API server is away while both rows arrive."""
    await take_over(driver, application_row())
    released = given_up(driver, "app")
    driver.cluster.failing = Retry("away")
    await driver.apply(application_row(path="elsewhere"), released)
    driver.cluster.failing = None
    driver.cluster.calls.clear()
    await driver.clock.advance(PAUSE_LIMIT_SECONDS)
    assert driver.cluster.names("Application") == []
    assert {verb for verb, _ in driver.cluster.writes()} == {"patch", "delete"}
    await list_everything(driver)
    assert driver.acknowledged == [0, 1]
