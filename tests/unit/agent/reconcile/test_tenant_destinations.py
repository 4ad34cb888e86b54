"""Rows that lead into the platform's namespaces, which no planner compiles: agents make nothing of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.messages import EngineResource, Failed
from services.kinds.gitops_deployment.catalogue import PLATFORM_NAMESPACE
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, project_row

TENANTS = {"name": "in-cluster", "namespace": "team-a"}
OF_AN_ENVIRONMENT = {"name": "managed-env-1", "namespace": "*"}
PLATFORMS = ["gitops-service", "argocd", "kube-system", "openshift-config"]
LOCAL = "https://kubernetes.default.svc"
UNCLEAR: list[Any] = [
    {"name": "in-cluster", "namespace": "*"},
    {"name": "in-cluster", "namespace": "{kube-system,team-a}"},
    {"name": "in-cluster", "namespace": "!team-a"},
    {"name": "in-cluster", "namespace": ""},
    {"name": "in-cluster", "namespace": None},
    {"name": "in-cluster"},
    {"name": "in-cluster", "namespace": ["kube-system"]},
    {"name": "*", "namespace": "kube-system"},
    {"name": "[i]n-cluster", "namespace": "kube-system"},
    {"name": "in-clust?r", "namespace": "kube-system"},
    {"name": "!managed-env-1", "namespace": "kube-system"},
    {"name": "in-cluster\n", "namespace": "kube-system"},
    {"name": 5, "namespace": "kube-system"},
    {"server": LOCAL, "namespace": "kube-system"},
    {"server": LOCAL, "namespace": "team-a"},
    {"server": "*", "namespace": "*"},
    {"name": "managed-env-1", "server": LOCAL, "namespace": "kube-system"},
]
"""None that a planner compiles; some lead there, and of the others it would have to be guessed."""


def project(*destinations: Any) -> EngineResource:
    return project_row("app-project-t", destinations=[*destinations])


def application(destination: Any) -> EngineResource:
    row = application_row("app", lane="app-project-t")
    manifest = json.loads(row.manifest)
    manifest["spec"]["destination"] = destination
    return replace(row, manifest=json.dumps(manifest))


async def told(driver: Driver, row: EngineResource) -> Failed:
    """What is said of a row that is refused; nothing is made."""
    await driver.begin()
    await driver.apply(row)
    (event,) = driver.reports.of(row.name)
    assert isinstance(event, Failed)
    assert event.permanent
    assert driver.cluster.names(row.kind) == []
    return event


@pytest.mark.parametrize("namespace", PLATFORMS)
async def test_project_when_it_lists_a_namespace_of_the_platform_then_it_is_refused_by_name(
    driver: Driver, namespace: str
) -> None:
    event = await told(driver, project(TENANTS, {"name": "in-cluster", "namespace": namespace}))
    assert f"'{namespace}'" in event.message
    assert "the namespace is the platform's" in event.message


@pytest.mark.parametrize("namespace", PLATFORMS)
async def test_application_when_it_leads_to_a_namespace_of_the_platform_then_its_user_is_told(
    driver: Driver, namespace: str
) -> None:
    event = await told(driver, application({"name": "in-cluster", "namespace": namespace}))
    assert (event.message, event.for_user) == (PLATFORM_NAMESPACE.text(), True)


@pytest.mark.parametrize("destination", UNCLEAR, ids=repr)
@pytest.mark.parametrize("row", [project, application], ids=["project", "application"])
async def test_destination_when_it_is_written_in_any_other_way_then_it_is_refused(
    driver: Driver, row: Any, destination: Any
) -> None:
    event = await told(driver, row(destination))
    assert "not as in destination {" in event.message
    assert not event.for_user


@pytest.mark.parametrize("destinations", ["any", {"name": "in-cluster"}, ["in-cluster"]], ids=repr)
async def test_project_when_its_destinations_are_no_list_of_mappings_then_it_is_refused(
    driver: Driver, destinations: Any
) -> None:
    await told(driver, project_row("app-project-t", destinations=destinations))


async def test_project_when_it_is_there_and_its_row_lists_the_platforms_then_it_stays_as_it_was(
    driver: Driver,
) -> None:
    await driver.begin(project(TENANTS))
    await driver.apply(project(TENANTS, {"name": "in-cluster", "namespace": "gitops-service"}))
    live = driver.cluster.objects["AppProject", "app-project-t"]
    assert live["spec"]["destinations"] == [TENANTS]


@pytest.mark.parametrize("destination", [TENANTS, OF_AN_ENVIRONMENT, {"name": "", "namespace": "team-a"}])
async def test_destination_when_it_is_a_tenants_then_project_and_application_are_made(
    driver: Driver, destination: dict[str, str]
) -> None:
    await driver.begin(project(destination), application(destination))
    assert (driver.cluster.names("AppProject"), driver.cluster.names("Application")) == (["app-project-t"], ["app"])
