"""Where tenants are by their Applications, and what is said of a kubeconfig that is none."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from services.cli.rebuild import live_placements
from services.cli.rebuild.live_placements import parse_kubeconfigs, read_applications
from services.cli.rebuild.placements import Located
from services.common.errors import InvalidConfiguration
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.engines.argocd.names import cluster_project_name, project_name

ADA, BOB, CAROL = (UUID(int=number) for number in (1, 2, 3))
NOW = datetime(2026, 5, 4, tzinfo=UTC)
ONE = EngineInstanceRow("one", "argocd", "argocd", "here", "", "shared", "", "general", 2500, "accepting", NOW, NOW)
TWO, GONE = (dataclasses.replace(ONE, id=name, namespace=f"argocd-{name}") for name in ("two", "gone"))
FAR = dataclasses.replace(ONE, id="far", engine_cluster="elsewhere")
PROJECTS = {
    "argocd": [project_name(ADA), project_name(ADA), project_name(BOB), "default"],
    "argocd-two": [project_name(BOB), cluster_project_name(BOB)],
    "argocd-gone": [project_name(CAROL)],
}
"""Of the Applications of each namespace."""
LABELS: dict[UUID, object] = {}
"""Those that are not as we make them, by the deployments' ids."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_pages(_: object, namespace: str) -> AsyncIterator[Any]:
        applications = enumerate(PROJECTS[namespace])
        yield SimpleNamespace(items=[application(project, UUID(int=number)) for number, project in applications])

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield SimpleNamespace(list_pages=list_pages)

    async def connect(_: Path) -> Any:
        return opened()

    monkeypatch.setattr(live_placements, "connect", connect)


def application(project: str, deployment: UUID) -> dict[str, Any]:
    label = LABELS.get(deployment, str(deployment))
    return {"metadata": {"labels": {"databaseID": label}}, "spec": {"project": project}}


@pytest.mark.usefixtures("cluster")
def test_applications_when_they_are_tenants_then_they_are_told_with_the_instance_that_has_them() -> None:
    retired = dataclasses.replace(GONE, state="retired")
    assert read_applications({"here": Path("any")}, [ONE, TWO, retired, FAR]) == [
        Located(ADA, UUID(int=0), "one"),
        Located(ADA, UUID(int=1), "one"),
        Located(BOB, UUID(int=2), "one"),
        Located(BOB, UUID(int=0), "two"),
        Located(BOB, UUID(int=1), "two"),
    ]


@pytest.mark.parametrize("label", [None, "", "x", 7])
def test_application_when_it_does_not_say_what_it_was_made_for_then_it_counts_for_nothing(
    cluster: None, monkeypatch: pytest.MonkeyPatch, label: object
) -> None:
    monkeypatch.setitem(LABELS, UUID(int=0), label)
    monkeypatch.setitem(PROJECTS, "argocd-two", [project_name(ADA)])
    assert read_applications({"here": Path("any")}, [TWO]) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("here", "give the engine cluster and its kubeconfig, CLUSTER=FILE"),
        ("there=file", "there is no engine instance in cluster 'there', but in elsewhere, here"),
    ],
)
def test_kubeconfigs_when_one_cannot_be_meant_then_the_error_says_what_to_give(given: str, told: str) -> None:
    with pytest.raises(InvalidConfiguration, match=told):
        parse_kubeconfigs([given], ["elsewhere", "here"])


def test_kubeconfigs_when_given_then_each_is_of_its_cluster() -> None:
    assert parse_kubeconfigs(["here=a=b"], ["here"]) == {"here": Path("a=b")}
