"""What an instance carries, by what it holds and what waits there."""

from __future__ import annotations

import pytest

from services.common.messages import RowKind
from services.planner.domain.fleet.measured_load import WAITING, WEIGHTS, in_applications, measured_load

LOADS = {
    "nothing": ([], 0, 0.0),
    "an Application": ([(RowKind.APPLICATION, 1)], 0, 1.0),
    "a cluster is as much as five": ([(RowKind.CLUSTER_SECRET, 1)], 0, 5.0),
    "a repository is as much as two": ([(RowKind.REPOSITORY_SECRET, 1)], 0, 2.0),
    "projects are little": ([(RowKind.APP_PROJECT, 10)], 0, 1.0),
    "one that waits counts once more": ([(RowKind.APPLICATION, 3)], 2, 5.0),
    "orders to the agent are nothing that stays": ([(RowKind.SYNC_OPERATION, 9), ("OrphanRemoval", 9)], 0, 0.0),
    "all of it": ([(RowKind.APPLICATION, 2), (RowKind.APP_PROJECT, 1), (RowKind.CLUSTER_SECRET, 1)], 1, 8.1),
}


@pytest.mark.parametrize(("counts", "queue", "applications"), LOADS.values(), ids=LOADS)
def test_load_when_measured_then_each_object_counts_by_the_work_with_it(
    counts: list[tuple[str, int]], queue: int, applications: float
) -> None:
    assert in_applications(measured_load(counts, queue)) == pytest.approx(applications)


def test_weights_when_used_then_all_are_whole_and_none_is_nothing() -> None:
    assert all(isinstance(each, int) and each > 0 for each in (*WEIGHTS.values(), WAITING))
