"""What an agent knows of the fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.agent.objects.fleet import Fleet
from tests.unit.agent.instances_of_fleet import ELSEWHERE, HERE, instance_row


def test_instances_when_they_are_of_several_clusters_then_ours_are_those_of_our_own() -> None:
    fleet = Fleet(HERE, [instance_row("ours", namespace="argocd"), instance_row("theirs", engine_cluster=ELSEWHERE)])
    assert fleet.namespaces == {"ours": "argocd"}
    assert [fleet.is_elsewhere(name) for name in ("ours", "theirs", "nobodys")] == [False, True, False]
    assert [fleet.knows(name) for name in ("ours", "theirs", "nobodys")] == [True, True, False]


@pytest.mark.parametrize("state", ["accepting", "full", "draining", "drained"])
def test_instance_when_it_is_not_retired_then_it_is_served(state: str) -> None:
    assert Fleet(HERE, [instance_row("one", state=state)]).namespaces == {"one": "one"}


def test_instance_when_it_is_retired_then_it_is_known_and_its_namespace_stays_the_platforms() -> None:
    fleet = Fleet(HERE, [instance_row("one", namespace="argocd", state="retired")])
    assert fleet.namespaces == {}
    assert fleet.knows("one")
    assert fleet.is_engine_namespace("argocd")


@pytest.mark.parametrize(
    ("state", "is_in_service"),
    [("provisioning", False), ("failed", False), ("retired", False), ("accepting", True), ("drained", True)],
)
def test_instance_when_it_was_never_ready_or_is_retired_then_it_is_not_in_service(
    state: str, is_in_service: bool
) -> None:
    fleet = Fleet(HERE, [instance_row("one", state=state)])
    assert fleet.is_in_service("one") == is_in_service
    assert fleet.is_in_service("nobodys")


def test_installations_when_some_are_retired_then_those_come_last() -> None:
    rows = [instance_row("a", state="retired"), instance_row("b"), instance_row("c", state="draining")]
    fleet = Fleet(HERE, [replace(row, wanted_version="3.2.11") for row in (*rows, instance_row("0", state="retired"))])
    assert [row.id for row in fleet.installations()] == ["b", "c", "0", "a"]


def test_namespace_when_an_engine_of_another_cluster_is_in_one_of_that_name_then_it_is_a_tenants_here() -> None:
    fleet = Fleet(HERE, [instance_row("theirs", namespace="argocd", engine_cluster=ELSEWHERE)])
    assert not fleet.is_engine_namespace("argocd")


def test_news_when_they_concern_what_we_serve_then_that_is_told() -> None:
    fleet = Fleet(HERE, [instance_row("one")])
    assert not fleet.store_rows([instance_row("one", state="draining")])
    assert not fleet.store_rows([instance_row("theirs", engine_cluster=ELSEWHERE)])
    assert fleet.store_rows([instance_row("two")])
    assert fleet.store_rows([instance_row("one", state="retired")])
    assert fleet.store_rows([instance_row("two", deleted=True)])


def test_news_when_several_are_of_one_instance_then_the_newest_counts() -> None:
    fleet = Fleet(HERE, [instance_row("one", namespace="older"), instance_row("one", namespace="newer")])
    assert fleet.namespaces == {"one": "newer"}
