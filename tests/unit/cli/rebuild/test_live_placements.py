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
from services.cli.rebuild.live_placements import parse_kubeconfigs, read_placements
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


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_pages(_: object, namespace: str) -> AsyncIterator[Any]:
        yield SimpleNamespace(items=[{"spec": {"project": each}} for each in PROJECTS[namespace]])

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield SimpleNamespace(list_pages=list_pages)

    async def connect(_: Path) -> Any:
        return opened()

    monkeypatch.setattr(live_placements, "connect", connect)


@pytest.mark.usefixtures("cluster")
def test_tenants_when_they_have_applications_then_they_are_where_most_of_these_are() -> None:
    retired = dataclasses.replace(GONE, state="retired")
    assert read_placements({"here": Path("any")}, [ONE, TWO, retired, FAR]) == {ADA: "one", BOB: "two"}


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
