from __future__ import annotations

import asyncio
from collections import Counter

from services.common.queueing import FairSemaphore
from tests.unit.fake_clock import settle


class Visits:
    """Tenants that hold a turn until they are told to go."""

    def __init__(self, slots: FairSemaphore) -> None:
        self._slots = slots
        self.inside: Counter[str] = Counter()
        self._gates: dict[str, list[asyncio.Event]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def arrive(self, tenant: str, times: int = 1) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._visit(tenant)) for _ in range(times)]
        self._tasks += tasks
        return tasks

    async def _visit(self, tenant: str) -> None:
        async with self._slots.slot_of(tenant):
            gate = asyncio.Event()
            self._gates.setdefault(tenant, []).append(gate)
            self.inside[tenant] += 1
            await gate.wait()
            self.inside[tenant] -= 1

    async def leave(self, tenant: str) -> None:
        self._gates[tenant].pop(0).set()
        await settle()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_slots_when_a_tenant_floods_then_few_of_it_and_another_at_once() -> None:
    visits = Visits(FairSemaphore(4, 2))
    visits.arrive("flood", 100)
    visits.arrive("quiet")
    await settle()
    assert visits.inside == {"flood": 2, "quiet": 1}
    await visits.end()


async def test_slots_when_all_are_taken_then_tenants_in_turn() -> None:
    visits = Visits(FairSemaphore(2, 2))
    visits.arrive("a", 3)
    visits.arrive("b", 1)
    visits.arrive("c", 1)
    await settle()
    assert visits.inside == {"a": 2}
    await visits.leave("a")
    assert +visits.inside == {"a": 1, "b": 1}
    await visits.leave("b")
    assert +visits.inside == {"a": 1, "c": 1}
    await visits.leave("c")
    assert +visits.inside == {"a": 2}
    await visits.end()


async def test_slots_when_one_who_waits_gives_up_then_nobody_is_kept_waiting() -> None:
    slots = FairSemaphore(1, 1)
    visits = Visits(slots)
    visits.arrive("a")
    await settle()
    (waiting,) = visits.arrive("b")
    await settle()
    waiting.cancel()
    await settle()
    visits.arrive("c")
    await settle()
    await visits.leave("a")
    assert +visits.inside == {"c": 1}
    await visits.end()
    async with asyncio.timeout(30), slots.slot_of("d"):
        pass
