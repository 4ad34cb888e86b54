"""Figures are what they are called."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from bench.measure import Result, Timing
from bench.report import cpu_per_item, figures, hops, percentile
from devstack.harness.journey import Passage, Stage

PERCENTILES: dict[str, tuple[list[float], float, float]] = {
    "one-value": ([7], 0.99, 7),
    "median-of-odd": ([3, 1, 2], 0.5, 2),
    "median-of-even": ([4, 1, 3, 2], 0.5, 2),
    "ninetieth-of-ten": ([float(value) for value in range(10, 0, -1)], 0.9, 9),
    "least": ([5, 6], 0, 5),
    "all": ([5, 6], 1, 6),
}


@pytest.mark.parametrize(("values", "share", "expected"), PERCENTILES.values(), ids=PERCENTILES)
def test_percentile_when_values_are_given_then_so_many_do_not_exceed_it(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == expected


def test_percentile_when_there_is_no_value_then_there_is_none() -> None:
    assert math.isnan(percentile([], 0.5))


def test_figures_when_some_never_arrived_then_they_are_counted_and_not_timed() -> None:
    result = Result([Timing("a", 10.0, 10.25), Timing("b", 11.0, 11.75)], seconds=4, missing=["c"])
    shown = figures(result)
    assert (shown.count, shown.missing, shown.per_second) == (2, 1, 0.5)
    assert (shown.p50, shown.p99, shown.worst) == (250, 750, 750)


def test_figures_when_nothing_arrived_then_no_number_is_made_up() -> None:
    shown = figures(Result([], seconds=0, missing=["a"]))
    assert (shown.count, shown.per_second) == (0, 0)
    assert math.isnan(shown.worst)


def passage(uid: str, stage: Stage, at: float) -> Passage:
    return Passage(uid, stage, datetime.fromtimestamp(at, UTC))


def test_hops_when_a_stage_is_passed_twice_then_the_first_time_counts() -> None:
    result = Result([Timing("a", 100.0, 101.0)], seconds=1, missing=[])
    passed = [
        passage("a", Stage.WATCHED, 100.25),
        passage("a", Stage.PLANNED, 100.5),
        passage("a", Stage.PLANNED, 100.75),
        passage("of another run", Stage.WATCHED, 100.5),
    ]
    table = hops(result, passed)
    assert table["created → watched"] == {"count": 1, "p50": 250, "p99": 250}
    assert table["watched → planned"]["p50"] == 250
    assert table["planned → streamed"]["count"] == 0


def test_cpu_when_a_process_rests_too_then_only_what_is_beyond_counts() -> None:
    before, after = {"planner": 1.0, "watcher": 2.0, "agent": 3.0}, {"planner": 2.0, "watcher": 2.25, "agent": 3.0}
    idle = {"planner": 0.5, "agent": 0.25}
    assert cpu_per_item(before, after, idle, items=10) == {"planner": 50, "watcher": 25, "agent": 0}
