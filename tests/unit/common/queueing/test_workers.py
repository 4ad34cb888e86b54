from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.common.queueing import Place, Workers, WorkQueue
from tests.unit.fake_clock import FakeClock, settle


class Bench:
    """Workers whose work goes on until its gate is opened."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue()
        self.workers = Workers(self.queue, self._work, self.clock, self.defects_append, limit=2)
        self.defects: list[BaseException] = []
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Future[float | None]] = {}

    def defects_append(self, defect: BaseException) -> None:
        self.defects.append(defect)

    async def _work(self, key: str) -> float | None:
        self.begun.append(key)
        self.gates[key] = asyncio.get_running_loop().create_future()
        return await self.gates[key]

    async def add(self, *keys: str) -> None:
        for key in keys:
            self.queue.add_key(key, Place(key[0]))
        self.workers.start_tasks()
        await settle()

    async def end(self, key: str, again_after: float | None = None) -> None:
        self.gates[key].set_result(again_after)
        await settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.workers.start()
    yield bench
    await bench.workers.stop()


async def test_keys_when_there_are_more_than_workers_then_they_begin_as_others_end(bench: Bench) -> None:
    await bench.add("a1", "a2", "b1")
    assert bench.begun == ["a1", "b1"]
    await bench.end("a1")
    assert bench.begun == ["a1", "b1", "a2"]


async def test_key_when_its_work_asks_for_another_time_then_it_begins_again_at_that_time(bench: Bench) -> None:
    await bench.add("a1")
    await bench.end("a1", again_after=5.0)
    await bench.clock.advance(4.9)
    assert bench.begun == ["a1"]
    await bench.clock.advance(0.1)
    assert bench.begun == ["a1", "a1"]


async def test_key_when_cancelled_and_added_again_then_its_work_begins_anew_after_the_old_has_ended(
    bench: Bench,
) -> None:
    await bench.add("a1")
    bench.workers.cancel_key("a1")
    await bench.add("a1")
    assert bench.begun == ["a1", "a1"]
    await bench.end("a1")
    assert len(bench.queue) == 0


async def test_key_when_cancelled_before_it_began_then_it_never_does(bench: Bench) -> None:
    bench.queue.add_key("a1", Place("a"))
    bench.workers.start_tasks()
    bench.workers.cancel_key("a1")
    await settle()
    assert (bench.begun, len(bench.queue)) == ([], 0)


async def test_workers_when_paused_then_nothing_begins_until_the_pause_is_over(bench: Bench) -> None:
    bench.workers.pause(3)
    await bench.add("a1")
    assert (bench.begun, bench.workers.is_paused) == ([], True)
    await bench.clock.advance(3)
    assert (bench.begun, bench.workers.is_paused) == (["a1"], False)


async def test_workers_when_stopped_then_nothing_is_in_progress_and_nothing_waits(bench: Bench) -> None:
    await bench.add("a1", "a2", "a3")
    await bench.workers.stop()
    assert [gate.cancelled() for gate in bench.gates.values()] == [True, True]
    assert len(bench.queue) == 0
    await bench.add("a4")
    assert "a4" not in bench.begun


async def test_work_when_it_raises_then_that_is_a_defect(bench: Bench) -> None:
    await bench.add("a1")
    defect = ValueError("of ours")
    bench.gates["a1"].set_exception(defect)
    await settle()
    assert bench.defects == [defect]
