"""What a failing plan comes down to."""

from __future__ import annotations

from chaos.plan.faults import Kill
from chaos.plan.generate import generate
from chaos.plan.operations import Operation, PutLogin, Remove
from chaos.plan.plan import Plan
from chaos.plan.size import Size, Targets
from chaos.shrink import shrink

CULPRITS: tuple[Operation | Kill, ...] = (PutLogin(3, 77), Kill("planner", 1.0), Remove(3, "run", "none"))


def planted() -> Plan:
    plan = generate(
        1,
        Size(operations=200, tenants=6, faults=9),
        Targets(("kafka",), ("kafka",), (("planner", "kafka"),), ("planner",), (1, 2)),
    )
    steps = list(plan.steps)
    for place, culprit in zip((150, 90, 40), reversed(CULPRITS), strict=True):
        steps.insert(place, culprit)
    return plan.with_steps(tuple(steps))


async def holds_culprits(plan: Plan) -> bool:
    return [step for step in plan.steps if step in CULPRITS] == list(CULPRITS)


async def test_plan_when_few_of_its_steps_suffice_to_fail_then_only_they_are_left() -> None:
    assert (await shrink(planted(), holds_culprits, runs=500)).steps == CULPRITS


async def test_plan_when_the_tenants_that_differ_are_known_then_fewer_runs_do() -> None:
    plan = planted()
    blindly = await shrink(plan, holds_culprits, runs=12)
    knowingly = await shrink(plan, holds_culprits, runs=12, suspects={3})
    assert len(knowingly.steps) < len(blindly.steps)


async def test_plan_when_no_runs_are_left_then_what_is_known_to_fail_is_kept() -> None:
    plan = planted()
    assert await shrink(plan, holds_culprits, runs=0) == plan
