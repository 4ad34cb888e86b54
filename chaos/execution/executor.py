"""Runs a plan: each tenant's operations in order, tenants side by side, and faults at their place among them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from chaos.execution.faults import Faults
from chaos.execution.fleet_operator import FleetOperator
from chaos.execution.intruder import Intruder
from chaos.execution.users import Users
from chaos.plan.faults import Fault, Meanwhile, may_overlap, target_of
from chaos.plan.operations import FleetOperation, Forge, Meddle, Operation
from chaos.plan.plan import Plan

WAITING_PER_TENANT = 20
"""Operations that wait for one before them; the whole plan stands still then."""


@dataclass(slots=True)
class Outcome:
    """What was done."""

    done: Counter[str] = field(default_factory=Counter)
    """By kind of operation or fault."""
    targets: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Processes and links, by kind of fault."""
    without_effect: Counter[str] = field(default_factory=Counter)
    """There was nothing to meddle with, or a planner has found nothing to do, or refused it."""
    overlapping: int = 0
    """Faults that began while another went on."""
    seconds: float = 0


class Executor:
    """Of one run."""

    def __init__(self, users: Users, intruder: Intruder, operator: FleetOperator, faults: Faults, rate: float) -> None:
        """``rate``: operations in a second, at most."""
        self._users, self._intruder, self._operator = users, intruder, operator
        self._faults, self._rate = faults, rate
        self._lanes: dict[int, asyncio.Queue[Operation | None]] = {}
        self._outcome = Outcome()

    async def run(self, plan: Plan) -> Outcome:
        """Return when every operation was acknowledged and every fault is over. Raises Unavailable."""
        began = time.monotonic()
        self._lanes = {tenant: asyncio.Queue(WAITING_PER_TENANT) for tenant in plan.tenants}
        await asyncio.gather(*map(self._users.make_namespace, plan.tenants))
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes.values():
                group.create_task(self._work(lane))
            group.create_task(self._dispatch(plan))
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    async def _dispatch(self, plan: Plan) -> None:
        """A fault begins when those before it are over, or all that leave no room for it. Others do not wait for it."""
        under_way: dict[asyncio.Task[None], Fault] = {}
        meanwhile = False
        for step in plan.steps:
            if isinstance(step, Meanwhile):
                meanwhile = True
            elif isinstance(step, Fault):
                for task, other in list(under_way.items()):
                    if task.done() or not meanwhile or not may_overlap(step, other):
                        await task
                        del under_way[task]
                self._outcome.overlapping += bool(under_way)
                meanwhile = False
                under_way[asyncio.create_task(self._inflict(step))] = step
            else:
                await self._lanes[step.tenant].put(step)
                await asyncio.sleep(1 / self._rate)
        for lane in self._lanes.values():
            await lane.put(None)
        await asyncio.gather(*under_way)

    async def _inflict(self, fault: Fault) -> None:
        await self._faults.carry_out(fault)
        self._outcome.done[type(fault).__name__] += 1
        if target := target_of(fault):
            self._outcome.targets[type(fault).__name__][target] += 1

    async def _work(self, lane: asyncio.Queue[Operation | None]) -> None:
        while (operation := await lane.get()) is not None:
            await self._carry_out(operation)
            self._outcome.done[type(operation).__name__] += 1

    async def _carry_out(self, operation: Operation) -> None:
        has_effect = True
        if isinstance(operation, Meddle):
            has_effect = await self._intruder.meddle(operation)
        elif isinstance(operation, Forge):
            await self._intruder.forge(operation)
        elif isinstance(operation, FleetOperation):
            has_effect = await self._operator.carry_out(operation)
        else:
            await self._users.carry_out(operation)
        if not has_effect:
            self._outcome.without_effect[type(operation).__name__] += 1
