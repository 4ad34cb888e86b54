"""How a plan is carried out."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from chaos.execution.executor import Executor
from chaos.execution.faults import Faults
from chaos.execution.intruder import Intruder
from chaos.execution.users import Users
from chaos.plan.faults import Cut, Kill, KillAll
from chaos.plan.operations import Meddle, PutLogin
from chaos.plan.plan import Plan

FAST = 1e6


class Everybody:
    """Users, intruder and faults, who note what they do, and give others a turn meanwhile."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def make_namespace(self, tenant: int) -> None:
        self.done.append(tenant)

    async def carry_out(self, step: object) -> None:
        await asyncio.sleep(0)
        self.done.append(step)

    async def meddle(self, operation: Meddle) -> bool:
        await self.carry_out(operation)
        return False


def executor(everybody: Everybody) -> Executor:
    each = cast("Any", everybody)
    return Executor(cast("Users", each), cast("Intruder", each), cast("Faults", each), FAST)


async def test_operations_when_several_tenants_have_some_then_each_tenants_are_in_order() -> None:
    everybody = Everybody()
    steps = tuple(PutLogin(tenant, version) for version in range(30) for tenant in (0, 1, 2))
    outcome = await executor(everybody).run(Plan(1, steps))
    assert everybody.done[:3] == [0, 1, 2]
    for tenant in (0, 1, 2):
        own = [step for step in everybody.done if isinstance(step, PutLogin) and step.tenant == tenant]
        assert own == [PutLogin(tenant, version) for version in range(30)]
    assert outcome.done == {"PutLogin": 90}


async def test_faults_when_there_are_two_then_the_second_begins_when_the_first_is_over() -> None:
    everybody = Everybody()
    faults = (Kill("planner", 1), Kill("agent-1", 1))
    await executor(everybody).run(Plan(1, (PutLogin(0, 1), *faults, PutLogin(0, 2))))
    assert [step for step in everybody.done if isinstance(step, Kill)] == list(faults)


async def test_faults_when_they_are_carried_out_then_their_targets_are_counted_by_kind() -> None:
    faults = (Kill("kafka", 1), Kill("kafka", 2), Cut("agent-1", "kafka", 1), KillAll())
    outcome = await executor(Everybody()).run(Plan(1, (PutLogin(0, 1), *faults)))
    assert outcome.targets == {"Kill": {"kafka": 2}, "Cut": {"agent-1 to kafka": 1}}


async def test_meddling_when_there_is_nothing_to_meddle_with_then_it_is_counted_as_without_effect() -> None:
    outcome = await executor(Everybody()).run(Plan(1, (Meddle(0, "application", "d0", "edit"),)))
    assert outcome.without_effect == {"Meddle": 1}
