"""A failover that takes longer than promised, or loses a change, is told, and `bench.failover` fails."""

from __future__ import annotations

import pytest

from bench.failover import Failover, find_slow
from devstack.harness.failures import KILLED


@pytest.mark.parametrize(
    ("service", "worst", "missing", "told"),
    [
        pytest.param("planner", 10.0, 0, [], id="in time"),
        pytest.param("planner", 10.1, 0, ["planner, killed: a change waited 10.1 s, more than 10 s"], id="planner"),
        pytest.param("agent", 10.1, 0, ["agent, killed: a change waited 10.1 s, more than 10 s"], id="agent"),
        pytest.param("watcher", 15.0, 0, [], id="a watcher has a Lease to wait for"),
        pytest.param("watcher", 15.1, 0, ["watcher, killed: a change waited 15.1 s, more than 15 s"], id="watcher"),
        pytest.param("agent", 1.0, 2, ["agent, killed: 2 changes had no effect"], id="lost"),
    ],
)
def test_failover_when_it_is_slow_or_loses_changes_then_it_is_told(
    service: str, worst: float, missing: int, told: list[str]
) -> None:
    found = {(service, KILLED): [Failover(1.0, 1.0, 0), Failover(1.0, worst, missing)]}
    assert list(find_slow(found)) == told
