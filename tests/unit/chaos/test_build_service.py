"""Each snapshot has commits of its own, which are known before anybody is told of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.execution.build_service import BranchForEachCommit, RecordedRepositories
from chaos.execution.charts import ComponentCharts
from chaos.record import Record
from devstack.appstudio.gitops_repositories import Wanted
from devstack.argocd_simulator.application import revision_of
from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, GitSite


def wanted(snapshot: str, component: str = "api", environment: str = "dev") -> Wanted:
    return Wanted("chaos-000", "shop", environment, component, snapshot, f"{component}:{snapshot}", {})


def seen_by_argocd(where: dict[str, Any]) -> str:
    """The commit that the simulator is at when it deploys what is said."""
    return revision_of({"spec": {"source": {"repoURL": where["url"], "targetRevision": where["branch"]}}})


@pytest.fixture
def charts(tmp_path: Path) -> ComponentCharts:
    (tmp_path / PUBLIC).mkdir()
    site = SimpleNamespace(repositories=tmp_path, https_url="https://git.example.com")
    return ComponentCharts(cast("GitSite", site))


def test_commit_when_argocd_is_simulated_then_it_is_the_one_that_is_deployed_and_differs_with_all_that_is_wanted() -> (
    None
):
    every = [wanted("one"), wanted("two"), wanted("one", "web"), wanted("one", environment="stage")]
    said = BranchForEachCommit().write_components(every)
    assert [each["commitID"] for each in said] == [seen_by_argocd(each) for each in said]
    assert len({each["commitID"] for each in said}) == len(every)
    assert BranchForEachCommit().write_components(every) == said


def test_commit_when_argocd_is_real_then_it_is_the_last_that_changed_the_component(
    charts: ComponentCharts, tmp_path: Path
) -> None:
    (first, web) = charts.write_components([wanted("one"), wanted("one", "web")])
    assert charts.write_components([wanted("one")]) == [first], "nothing is pushed twice"
    (second,) = charts.write_components([wanted("two")])
    repository = Repository(tmp_path / PUBLIC / "chaos-000-shop.git")
    assert len({each["commitID"] for each in (first, web, second)}) == 3
    assert repository.head() == second["commitID"]
    assert "api:two" in repository.show(second["commitID"], f"{second['path']}/templates/object.yaml")


def test_commit_when_a_snapshot_comes_again_then_it_is_named_as_before_whatever_others_have_meanwhile(
    charts: ComponentCharts,
) -> None:
    """Two bindings of one environment with different snapshots would be written, and named anew, for ever."""
    (one,) = charts.write_components([wanted("one")])
    charts.write_components([wanted("two")])
    assert charts.write_components([wanted("one")]) == [one]


def test_build_when_it_is_written_then_the_record_has_it_and_what_came_later_on_its_branch(
    charts: ComponentCharts,
) -> None:
    record = Record()
    repositories = RecordedRepositories(charts, record)
    assert repositories.names_anew
    ids = [repositories.write_components([wanted(each)])[0]["commitID"] for each in ("one", "two")]
    (one,), (two,) = (record.builds["chaos-000", "dev", each] for each in ("one", "two"))
    assert [record.this_or_later(each.commits[0]) for each in (one, two)] == [ids, ids[1:]]
