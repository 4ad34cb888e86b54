"""When a periodic task is due."""

from __future__ import annotations

from typing import Any

import pytest

from services.planner.pipeline.periodic_tasks import Task

PLANNER: Any = None


def test_task_when_its_period_is_over_then_it_runs_again_and_not_before() -> None:
    runs = list[int]()
    task = Task(3, lambda _: runs.append(second))
    for second in range(10):
        task.run_if_due(PLANNER, second)
    assert runs == [0, 3, 6, 9]


def test_task_when_there_is_more_to_do_then_it_is_due_again_at_once() -> None:
    runs, more = list[int](), [True, True, False]

    def run(_: Any) -> bool:
        runs.append(second)
        return more.pop(0)

    task = Task(3, run)
    for second in range(5):
        task.run_if_due(PLANNER, second)
    assert runs == [0, 1, 2]


def test_task_when_it_fails_then_it_is_due_after_its_period() -> None:
    def run(_: Any) -> None:
        raise ZeroDivisionError

    task = Task(3, run)
    with pytest.raises(ZeroDivisionError):
        task.run_if_due(PLANNER, 0)
    task.run_if_due(PLANNER, 2)
    with pytest.raises(ZeroDivisionError):
        task.run_if_due(PLANNER, 3)
