"""What an instance carries, by what it holds, what is on its way, and what waits there."""

from __future__ import annotations

import pytest

from services.common.messages import RowKind
from services.planner.domain.fleet.placement.measured_load import WAITING, in_applications, measured_load
from services.planner.engines.argocd.load import LOADS
from services.planner.engines.available import ENGINES

ARGOCD = ENGINES["argocd"]
OBJECTS = {
    "an Application": (RowKind.APPLICATION, 1.0),
    "a cluster is as much as five": (RowKind.CLUSTER_SECRET, 5.0),
    "a repository is as much as two": (RowKind.REPOSITORY_SECRET, 2.0),
    "projects are little": (RowKind.APP_PROJECT, 0.1),
    "an order to the agent is nothing that stays": (RowKind.SYNC_OPERATION, 0.0),
    "nor is another": ("OrphanRemoval", 0.0),
}


@pytest.mark.parametrize(("kind", "applications"), OBJECTS.values(), ids=OBJECTS)
def test_object_when_it_is_argo_cds_then_it_counts_by_the_work_with_it(kind: str, applications: float) -> None:
    assert in_applications(ARGOCD.load_of(kind)) == pytest.approx(applications)


LOADED = {
    "nothing": (0, 0, 0, 0.0),
    "what it holds": (21, 0, 0, 2.1),
    "what is on its way counts as if it were there": (20, 3, 0, 5.0),
    "one that waits counts once more": (30, 0, 2, 5.0),
}


@pytest.mark.parametrize(("objects", "coming", "queue", "applications"), LOADED.values(), ids=LOADED)
def test_load_when_measured_then_it_is_what_is_held_what_comes_and_what_waits(
    objects: int, coming: int, queue: int, applications: float
) -> None:
    assert in_applications(measured_load(objects, coming, queue)) == pytest.approx(applications)


def test_loads_when_used_then_all_are_whole_and_none_is_nothing() -> None:
    assert all(isinstance(each, int) and each > 0 for each in (*LOADS.values(), WAITING))
