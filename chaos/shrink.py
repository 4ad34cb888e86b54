"""Finds a part of a plan that still fails: delta debugging (Zeller's ddmin), with a bound on the number of runs.

A run takes half a minute, so it is tried first whether the tenants that differ suffice, and whether one kind of fault
does. Property-testing libraries shrink by hundreds of runs; that is not for this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import pairwise

from chaos.plan.operations import Operation
from chaos.plan.plan import Plan, Step

Fails = Callable[[Plan], Awaitable[bool]]


async def shrink(plan: Plan, fails: Fails, runs: int, suspects: Collection[int] = ()) -> Plan:
    """The smallest part of ``plan`` found within this many runs of which ``fails`` is true, as it is of ``plan``.

    ``suspects`` are tenants that something was wrong with.
    """
    budget = _Budget(fails, runs)
    for candidate in _likely(plan, suspects):
        if await budget.fails(candidate):
            plan = candidate
            break
    return plan.with_steps(await _ddmin(plan, budget))


class _Budget:
    """Counts the runs; beyond the last nothing fails any more, so that nothing is taken away."""

    def __init__(self, fails: Fails, runs: int) -> None:
        self._fails, self.left = fails, runs

    async def fails(self, plan: Plan) -> bool:
        if self.left == 0:
            return False
        self.left -= 1
        return await self._fails(plan)


def _likely(plan: Plan, suspects: Collection[int]) -> Iterator[Plan]:
    """The suspects alone, without faults and with them."""
    if not suspects:
        return
    own = tuple(step for step in plan.steps if not isinstance(step, Operation) or step.tenant in suspects)
    without_faults = tuple(step for step in own if isinstance(step, Operation))
    for steps in (without_faults, own):
        if 0 < len(steps) < len(plan.steps):
            yield plan.with_steps(steps)


async def _ddmin(plan: Plan, budget: _Budget) -> tuple[Step, ...]:
    steps, parts = plan.steps, 2
    while len(steps) > 1 and budget.left:
        for complement in _complements(steps, parts):
            if await budget.fails(plan.with_steps(complement)):
                steps, parts = complement, max(parts - 1, 2)
                break
        else:
            if parts >= len(steps):
                break
            parts = min(parts * 2, len(steps))
    return steps


def _complements(steps: tuple[Step, ...], parts: int) -> Iterator[tuple[Step, ...]]:
    """``steps`` without each of ``parts`` parts of nearly equal length."""
    bounds = [len(steps) * number // parts for number in range(parts + 1)]
    for start, end in pairwise(bounds):
        if start < end:
            yield steps[:start] + steps[end:]
