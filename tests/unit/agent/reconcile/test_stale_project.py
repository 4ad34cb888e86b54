"""Argo CD sees an Application before the AppProject that was changed for it, and refuses the Application."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.agent.objects.reconciliation import REFRESH
from services.agent.observe.status_reporter import STALE_SECONDS
from services.agent.private_repositories.isolation import REPO_SERVER_TIMEOUT
from services.agent.reconcile.enqueuer import FREE_REPAIRS
from services.common.messages import EngineResource, StatusReported
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import secret_of
from tests.unit.agent.rows import application_row, project_row, repository_row
from tests.unit.fake_clock import settle

URL = "https://example.com/Team/repo.git"
LISTED = "https://example.com/team/repo"
"""As the planner lists it."""
APPLICATION, PROJECT = application_row(repoURL=URL), project_row(sourceRepos=[LISTED])
NOT_PERMITTED = f"application repo {URL} is not permitted in project 'project'"
MISSING = "Application referencing project project which does not exist"
CLUSTER = "there are no clusters with this name: managed-env-1"
ROUND = 301
"""Seconds within which everything is compared."""
UNKNOWN = {"sync": {"status": "Unknown"}, "health": {"status": "Unknown"}}
SYNCED = {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "conditions": None}


async def made(driver: Driver, *projects: EngineResource) -> None:
    await driver.begin(*(projects or [PROJECT]))
    await driver.apply(APPLICATION)


async def denied(driver: Driver) -> None:
    """The repository opens to another tenant's login alone."""
    login = repository_row("theirs", URL, lane="project-theirs")
    found = CheckResult(secret_of(login, url=URL), "Told", "", access=RepositoryAccess.LOGIN)
    driver.checker.outcomes["theirs"] = found
    await made(driver, PROJECT, project_row("project-theirs", sourceRepos=[LISTED]))
    await driver.apply(login)
    await driver.clock.advance(REPO_SERVER_TIMEOUT.total_seconds() + 1)
    assert listed(driver) == []


def listed(driver: Driver) -> list[str]:
    repositories: list[str] = driver.cluster.objects["AppProject", "project"]["spec"]["sourceRepos"]
    return repositories


async def says(driver: Driver, status: dict[str, Any]) -> None:
    """Argo CD has looked at the Application: nobody needs to ask it to any more."""
    driver.cluster.edit("Application", "app", {"metadata": {"annotations": {REFRESH: None}}, "status": status})
    await settle()


async def refuses(driver: Driver, message: str) -> None:
    await says(driver, UNKNOWN | {"conditions": [{"type": "InvalidSpecError", "message": message}]})


def requests(driver: Driver) -> int:
    """How often Argo CD was asked to compare: by nothing else is an Application patched here."""
    return driver.cluster.writes().count(("patch", "app"))


def is_asked(driver: Driver) -> bool:
    annotations = driver.cluster.objects["Application", "app"]["metadata"].get("annotations", {})
    return REFRESH in annotations


def statuses(driver: Driver) -> list[dict[str, Any]]:
    return [orjson.loads(event.status) for event in driver.reports.of("app") if isinstance(event, StatusReported)]


@pytest.mark.parametrize("message", [NOT_PERMITTED, MISSING])
async def test_application_when_argocd_has_not_seen_its_project_then_it_is_asked_once_and_nothing_is_reported(
    driver: Driver, message: str
) -> None:
    await made(driver)
    await refuses(driver, message)
    assert (is_asked(driver), requests(driver), statuses(driver)) == (True, 1, [])
    driver.cluster.edit("Application", "app", {"status": {"observedAt": "later"}})  # it has not looked yet
    await driver.clock.advance(STALE_SECONDS / 2)
    assert (requests(driver), statuses(driver)) == (1, [])
    await says(driver, SYNCED)
    await driver.clock.advance(STALE_SECONDS)
    assert (is_asked(driver), requests(driver)) == (False, 1)
    assert [status["sync"]["status"] for status in statuses(driver)] == ["Synced"]


async def test_application_when_it_is_refused_after_it_was_deployed_then_what_waits_to_be_reported_is_not_the_refusal(
    driver: Driver,
) -> None:
    await made(driver)
    await says(driver, {"sync": {"status": "OutOfSync"}})
    await refuses(driver, NOT_PERMITTED)
    await driver.clock.advance(STALE_SECONDS / 2)
    await says(driver, SYNCED)
    assert [status["sync"]["status"] for status in statuses(driver)] == ["Synced"]


async def test_application_when_argocd_refuses_it_again_and_again_then_requests_become_rare_and_it_is_reported(
    driver: Driver,
) -> None:
    await made(driver)
    for _ in range(120):
        await refuses(driver, NOT_PERMITTED)
        await driver.clock.advance(1)
    assert FREE_REPAIRS < requests(driver) < 30
    assert [status["conditions"][0]["message"] for status in statuses(driver)] == [NOT_PERMITTED]


@pytest.mark.parametrize(
    ("project", "message"),
    [
        (project_row(sourceRepos=[]), NOT_PERMITTED),
        (PROJECT, CLUSTER),
        (PROJECT, NOT_PERMITTED.replace(URL, "https://example.com/other")),
        (PROJECT, NOT_PERMITTED.replace("'project'", "'default'")),
    ],
    ids=["not listed", "another reason", "another repository", "another project"],
)
async def test_application_when_its_project_is_not_the_reason_then_its_refusal_is_reported_at_once_and_stays(
    driver: Driver, project: EngineResource, message: str
) -> None:
    await made(driver, project)
    await refuses(driver, message)
    await driver.clock.advance(STALE_SECONDS)
    assert (requests(driver), len(statuses(driver))) == (0, 1)


async def test_application_when_its_tenant_is_denied_the_repository_then_nothing_is_asked_and_its_refusal_is_reported(
    driver: Driver,
) -> None:
    await denied(driver)
    driver.cluster.calls.clear()
    await refuses(driver, NOT_PERMITTED)
    await driver.clock.advance(STALE_SECONDS)
    assert (requests(driver), len(statuses(driver))) == (0, 1)


async def test_application_when_its_tenant_is_denied_the_repository_no_more_then_argocd_is_asked(
    driver: Driver,
) -> None:
    """It has compared this source before, and sees no reason to do so again."""
    await denied(driver)
    await refuses(driver, NOT_PERMITTED)
    assert not is_asked(driver)
    driver.checker.public.add(URL)
    await driver.clock.advance(ROUND)
    assert listed(driver) == [LISTED]
    assert is_asked(driver)
