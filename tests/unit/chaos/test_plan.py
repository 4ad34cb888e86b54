"""From a seed to a plan, and back from its file."""

from __future__ import annotations

from collections import Counter

from chaos.plan.faults import FAULTS
from chaos.plan.generate import Size, Targets, generate
from chaos.plan.operations import OPERATIONS
from chaos.plan.plan import Plan

TARGETS = Targets(("planner", "agent-1"), ("kafka",), (("planner", "postgres"),), ("watcher",), (1, 2))
PLAN = generate(7, Size(operations=2000, tenants=5, faults=55), TARGETS)


def test_plan_when_made_again_from_its_seed_then_it_is_the_same() -> None:
    assert generate(7, Size(operations=2000, tenants=5, faults=55), TARGETS) == PLAN


def test_plan_when_made_from_another_seed_then_it_is_another() -> None:
    assert generate(8, Size(operations=2000, tenants=5, faults=55), TARGETS).steps != PLAN.steps


def test_plan_when_it_is_long_then_every_kind_of_operation_is_in_it() -> None:
    assert {type(each) for each in PLAN.operations} == set(OPERATIONS)


def test_faults_when_there_are_enough_then_each_kind_comes_equally_often() -> None:
    assert Counter(type(each) for each in PLAN.faults) == dict.fromkeys(FAULTS, 55 // len(FAULTS))


def test_faults_when_spread_then_operations_come_before_the_first_and_after_the_last() -> None:
    kinds = ["fault" if isinstance(step, FAULTS) else "operation" for step in PLAN.steps]
    assert (kinds[0], kinds[-1]) == ("operation", "operation")


def test_plan_when_kept_in_a_file_then_it_comes_back() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
