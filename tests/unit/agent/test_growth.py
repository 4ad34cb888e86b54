"""An agent that lives for years: of what has gone, it holds nothing in memory."""

from __future__ import annotations

from dataclasses import replace

from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.agent.private_repositories.isolation import REPO_SERVER_TIMEOUT
from services.agent.private_repositories.registry_expiry import EXPIRY_SECONDS, REPO_SERVERS
from services.common.messages import EngineResource
from tests.unit.agent.driver import PARTITION, Driver
from tests.unit.agent.fakes import secret_of
from tests.unit.agent.rows import application_row, cluster_row, project_row, repository_row, sync_row
from tests.unit.fake_clock import settle
from tests.unit.growth import grown, held

GENERATIONS = 6
COMPARED = 3
"""The generation after which nothing grows any more."""


def generation(number: int) -> list[EngineResource]:
    """A tenant that was never there before, with one of everything."""
    lane, url = f"project-{number}", f"https://example.com/repo-{number}"
    return [
        project_row(lane, sourceRepos=[url]),
        repository_row(f"login-{number}", url, lane),
        cluster_row(f"managed-env-{number}", lane=lane),
        application_row(f"app-{number}", lane=lane, repoURL=url),
        replace(sync_row(f"run-{number}", name=f"app-{number}"), lane=lane),
    ]


async def live(driver: Driver, number: int) -> None:
    """It comes, its sync runs, and it goes."""
    rows = generation(number)
    made = secret_of(rows[1], url=f"https://example.com/repo-{number}")
    driver.checker.outcomes[rows[1].name] = CheckResult(made, "Told", "", access=RepositoryAccess.LOGIN)
    await driver.apply(*rows)
    await driver.clock.advance(REPO_SERVER_TIMEOUT.total_seconds() + 1)
    operation = driver.cluster.objects["Application", f"app-{number}"]["operation"]
    ended = {"operation": operation, "phase": "Succeeded", "finishedAt": "2026-01-01T00:00:09Z"}
    driver.cluster.edit("Application", f"app-{number}", {"operation": None, "status": {"operationState": ended}})
    await settle()
    await driver.apply(replace(rows[4], deleted=True), *(replace(row, desired="absent") for row in reversed(rows[:4])))
    driver.cluster.edit("Application", f"app-{number}", {"metadata": {"finalizers": None}})
    await driver.clock.advance(120)
    await driver.apply(*(replace(row, deleted=True) for row in rows[:4]))
    driver.checker.outcomes.clear()
    await driver.clock.advance(3 * EXPIRY_SECONDS)
    label, _, value = REPO_SERVERS.partition("=")
    began = {"creationTimestamp": driver.clock.now().isoformat(), "labels": {label: value}}
    driver.cluster.put("Pod", "repo-server", {"metadata": began, "spec": {}})
    await driver.clock.advance(EXPIRY_SECONDS)
    driver.cluster.remove("Pod", "repo-server")


async def test_agent_when_tenants_come_and_go_for_ever_then_nothing_of_them_stays_in_its_memory(driver: Driver) -> None:
    await driver.begin()
    sizes = []
    for number in range(GENERATIONS):
        await live(driver, number)
        driver.cluster.calls.clear()
        sizes.append(held(driver.instance))
    assert grown(sizes[COMPARED - 1], sizes[-1]) == {}
    assert {name for kind, name in driver.cluster.objects} == set()
    assert driver.offsets.committable_offset(PARTITION) == driver.offsets.next_offset(PARTITION)
