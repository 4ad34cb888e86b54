"""An instance whose Argo CD may not be used: what is done there all the same, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from services.agent.instances.crd_schemas import RETRY_REFRESH
from services.agent.reconcile.instance_workers import WAIT_LIMIT_SECONDS
from services.common.errors import Retry
from services.common.messages import Applied, Failed, Removed
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from services.kinds.sync_run import catalogue as sync_run
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, project_row, sync_row
from tests.unit.fake_clock import settle

REFUSED = "Argo CD 3.2.11 lacks fixes"
COMPARED = 301
APPLICATION, PROJECT = application_row("app"), project_row("app-project-t")


def failed(digest: str) -> Failed:
    return Failed(digest, permanent=True, message=ENGINE_NOT_ACCEPTED.text(), for_user=True)


async def test_application_when_its_engine_is_refused_then_it_is_made_once_that_is_mended(driver: Driver) -> None:
    driver.engine.refusal = REFUSED
    await driver.begin(PROJECT)
    await driver.apply(APPLICATION)
    assert driver.reports.of("app") == [failed(APPLICATION.digest)]
    assert (driver.cluster.names("Application"), driver.cluster.names("AppProject")) == ([], ["app-project-t"])
    driver.engine.refusal = ""
    await driver.clock.advance(COMPARED)
    assert Applied(APPLICATION.digest) in driver.reports.of("app")
    assert driver.cluster.names("Application") == ["app"]


async def test_application_when_it_is_there_and_its_engine_is_refused_then_it_stays_and_may_go(driver: Driver) -> None:
    await driver.begin(PROJECT, APPLICATION)
    driver.engine.refusal = REFUSED
    await driver.apply(APPLICATION)
    await driver.clock.advance(COMPARED)
    assert failed(APPLICATION.digest) not in driver.reports.of("app")
    await driver.apply(replace(APPLICATION, desired="absent"))
    driver.cluster.remove("Application", "app")
    await driver.clock.advance(COMPARED)
    assert isinstance(driver.reports.of("app")[-1], Removed)


async def test_application_when_its_engine_is_closed_then_its_user_is_told_until_it_is_made(driver: Driver) -> None:
    driver.engine.is_inaccessible = True
    driver.cluster.failing = Retry("closed")
    await driver.begin(PROJECT, APPLICATION)
    changed = replace(APPLICATION, digest="new")
    await driver.apply(changed)
    assert driver.reports.of("app") == [failed(APPLICATION.digest), failed("new")]
    assert driver.reports.of("app-project-t") == []
    driver.engine.is_inaccessible, driver.cluster.failing = False, None
    await driver.clock.advance(COMPARED)
    assert driver.reports.of("app")[2:] == [Applied("new")]


async def test_application_when_its_engine_is_not_inspected_yet_then_it_is_made_once_it_is(driver: Driver) -> None:
    driver.engine.is_inspected = False
    order = sync_row(name="app")
    await driver.begin(PROJECT)
    await driver.apply(APPLICATION)
    await driver.apply(order)
    assert driver.reports.of("app") == []
    assert (driver.cluster.names("Application"), driver.cluster.names("AppProject")) == ([], ["app-project-t"])
    driver.engine.note_verdict("")
    await driver.clock.advance(WAIT_LIMIT_SECONDS)
    assert Applied(APPLICATION.digest) in driver.reports.of("app")
    assert "operation" in driver.cluster.objects["Application", "app"]


@pytest.mark.parametrize("made", [True, False], ids=["with its Application", "before its Application"])
async def test_sync_when_its_engine_is_refused_then_it_ends_and_says_that_another_is_needed(
    driver: Driver, made: bool
) -> None:
    await driver.begin(PROJECT, *([APPLICATION] if made else []))
    driver.engine.refusal = REFUSED
    order = sync_row(name="app")
    await driver.apply(order)
    message = sync_run.ENGINE_NOT_ACCEPTED.text()
    assert "create another GitOpsDeploymentSyncRun" in message
    assert Failed(order.digest, permanent=True, message=message, for_user=True) in driver.reports.of("app")
    driver.engine.refusal = ""
    await driver.clock.advance(COMPARED)
    applications = [item for (kind, _), item in driver.cluster.objects.items() if kind == "Application"]
    assert [item for item in applications if "operation" in item] == []


@pytest.mark.parametrize("path", [(), RETRY_REFRESH])
async def test_field_when_the_crd_does_not_know_it_then_it_is_not_sent(driver: Driver, path: tuple[str, ...]) -> None:
    driver.engine.unserved = (("Application", path),) if path else ()
    manifest = json.loads(APPLICATION.manifest)
    manifest["spec"]["syncPolicy"] = {"retry": {"limit": -1, "refresh": True}}
    await driver.begin(PROJECT, replace(APPLICATION, manifest=json.dumps(manifest)))
    await settle()
    retry = driver.cluster.objects["Application", "app"]["spec"]["syncPolicy"]["retry"]
    assert retry == ({"limit": -1} if path else {"limit": -1, "refresh": True})
