from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from services.common.kafka import TopicPartition
from services.common.messages import WorkspaceResource
from services.common.queueing import UNBOUNDED
from services.watcher.rows.pending_rows import Identity, PendingRow, PendingRows
from tests.unit.common.kafka.messages import consumed
from tests.unit.watcher.manifests import row

DEADLINE_SECONDS = 30
TOPIC = "gitops.workspace"


def item(name: str, offset: int, partition: int = 0, **columns: Any) -> PendingRow[WorkspaceResource]:
    return PendingRow(row(name, **columns), consumed(TOPIC, offset, partition=partition))


class Rig:
    """Pending statuses, and writes that the test ends."""

    def __init__(self, at_once: int = UNBOUNDED, wave_of: Callable[[Any], int] = lambda _row: 0) -> None:
        self.begun: asyncio.Queue[PendingRow[WorkspaceResource]] = asyncio.Queue()
        self.acknowledged: list[PendingRow[WorkspaceResource]] = []
        self.in_flight: dict[Identity, asyncio.Future[float | None]] = {}
        self.defects: list[BaseException] = []
        self.pending = PendingRows(self._write, self.acknowledged.append, self.defects.append, at_once, wave_of)

    async def _write(self, item: PendingRow[WorkspaceResource]) -> float | None:
        assert item.identity not in self.in_flight
        self.in_flight[item.identity] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(item)
        return await self.in_flight[item.identity]

    async def take(self) -> PendingRow[WorkspaceResource]:
        """The next item whose write begins."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.begun.get()

    def end(self, item: PendingRow[WorkspaceResource], seconds: float | None = None) -> None:
        """It was written, or is to be tried again after ``seconds``."""
        self.in_flight.pop(item.identity).set_result(seconds)

    async def is_idle(self) -> bool:
        """Whether no other write has begun, nor begins now."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self.begun.empty()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    rig.pending.start(writers=1)
    yield rig
    await rig.pending.stop()
    assert rig.defects == []


@pytest.fixture
async def busy(rig: Rig) -> Rig:
    """With as many writers as there is to do."""
    await rig.pending.stop()
    rig.pending.start(writers=10)
    return rig


async def test_rows_when_of_different_resources_then_they_are_written_in_order_of_arrival(rig: Rig) -> None:
    for offset, name in enumerate(("a", "b", "c")):
        rig.pending.add_item(item(name, offset))
    written = []
    for _ in range(3):
        written.append(await rig.take())
        rig.end(written[-1])
    assert [each.row.name for each in written] == ["a", "b", "c"]
    assert await rig.is_idle()
    assert rig.acknowledged == written


async def test_row_when_a_newer_one_of_the_same_resource_comes_then_only_that_is_written(busy: Rig) -> None:
    older, newer = item("a", 0), item("a", 1, status="{}")
    busy.pending.add_item(older)
    busy.pending.add_item(newer)
    assert busy.acknowledged == [older]
    assert await busy.take() is newer
    assert await busy.is_idle()


async def test_row_when_one_of_the_same_resource_is_being_written_then_it_waits(busy: Rig) -> None:
    first, second = item("a", 0), item("a", 1)
    busy.pending.add_item(first)
    await busy.take()
    busy.pending.add_item(second)
    assert await busy.is_idle()
    assert busy.acknowledged == []
    busy.end(first)
    assert await busy.take() is second
    assert busy.acknowledged == [first]


async def test_row_when_to_be_tried_again_then_others_go_on_and_it_comes_back(rig: Rig) -> None:
    stuck, other = item("stuck", 0), item("other", 1)
    rig.pending.add_item(stuck)
    rig.pending.add_item(other)
    assert await rig.take() is stuck
    rig.end(stuck, 0.01)
    assert await rig.take() is other
    rig.end(other)
    assert await rig.take() is stuck
    assert rig.acknowledged == [other]


async def test_row_when_to_be_tried_again_while_a_newer_one_waits_then_the_newer_one_comes_back(busy: Rig) -> None:
    older, newer = item("a", 0), item("a", 1)
    busy.pending.add_item(older)
    await busy.take()
    busy.pending.add_item(newer)
    busy.end(older, 0.01)
    assert await busy.is_idle(), "a newer one does not jump the delay"
    assert busy.acknowledged == [older]
    assert await busy.take() is newer


async def test_row_when_to_be_tried_again_then_a_newer_one_does_not_jump_its_delay(busy: Rig) -> None:
    older, newer = item("a", 0), item("a", 1)
    busy.pending.add_item(older)
    busy.end(await busy.take(), 0.01)
    assert await busy.is_idle()
    busy.pending.add_item(newer)
    assert busy.acknowledged == [older]
    assert await busy.is_idle()
    assert await busy.take() is newer


async def test_partition_when_dropped_then_its_rows_are_not_written_and_others_are(busy: Rig) -> None:
    busy.pending.add_item(item("a", 0, partition=1))
    kept = item("b", 0, partition=2)
    busy.pending.add_item(kept)
    await busy.pending.drop_partitions([TopicPartition(TOPIC, 1)])
    assert await busy.take() is kept
    assert await busy.is_idle()


async def test_partition_when_dropped_then_what_is_being_written_is_waited_for(rig: Rig) -> None:
    writing = item("a", 0, partition=1)
    rig.pending.add_item(writing)
    await rig.take()
    dropping = asyncio.ensure_future(rig.pending.drop_partitions([TopicPartition(TOPIC, 1)]))
    await rig.is_idle()
    assert not dropping.done()
    rig.end(writing, 0.001)  # even if it fails, it does not come back
    async with asyncio.timeout(DEADLINE_SECONDS):
        await dropping
    assert len(rig.pending) == 0


async def test_resource_when_dropped_and_read_again_then_it_has_one_writer_at_a_time(busy: Rig) -> None:
    busy.pending.add_item(item("a", 0))
    await busy.pending.drop_partitions([TopicPartition(TOPIC, 0)])
    again, newer = item("a", 0), item("a", 1)
    busy.pending.add_item(again)
    assert await busy.take() is again
    busy.pending.add_item(newer)
    assert await busy.is_idle()
    busy.end(again)
    assert await busy.take() is newer


async def test_row_when_another_namespace_has_thousands_waiting_then_it_is_next_in_turn(rig: Rig) -> None:
    for number in range(5000):
        rig.pending.add_item(item(f"web-{number}", number, namespace="busy"))
    quiet = item("web", 5000, namespace="quiet")
    rig.pending.add_item(quiet)
    rig.end(await rig.take())  # begun before the quiet one came
    next_one = await rig.take()
    rig.end(next_one)
    assert quiet in [next_one, await rig.take()]
    assert len(rig.pending) == 4998


async def test_rows_when_there_are_several_writers_then_as_many_are_written_at_a_time(rig: Rig) -> None:
    await rig.pending.stop()
    rig.pending.start(writers=3)
    for offset, name in enumerate(("a", "b", "c", "d")):
        rig.pending.add_item(item(name, offset))
    assert [(await rig.take()).row.name for _ in range(3)] == ["a", "b", "c"]
    assert await rig.is_idle()
    assert len(rig.pending) == 1


async def test_write_when_it_has_a_defect_then_that_is_told(rig: Rig) -> None:
    rig.pending.add_item(item("a", 0))
    defect = ZeroDivisionError()
    rig.in_flight[(await rig.take()).identity].set_exception(defect)
    assert await rig.is_idle()
    assert rig.defects == [defect]
    rig.defects.clear()


async def test_rows_when_a_namespace_has_its_share_of_writers_then_others_are_served_at_once() -> None:
    rig = Rig(at_once=2)
    rig.pending.start(writers=10)
    for number in range(1000):
        rig.pending.add_item(item(f"web-{number}", number, namespace="busy"))
    rig.pending.add_item(item("elsewhere", 1000, namespace="quiet"))
    begun = [await rig.take() for _ in range(3)]
    assert [each.row.name for each in begun] == ["web-0", "web-1", "elsewhere"]
    assert await rig.is_idle()
    rig.end(begun[0])
    assert (await rig.take()).row.name == "web-2"
    await rig.pending.stop()
    assert rig.defects == []


async def test_rows_when_in_waves_then_a_namespaces_lower_ones_are_written_before_others() -> None:
    rig = Rig(wave_of=lambda row: 0 if row.name.startswith("secret") else 1)
    for offset, name in enumerate(("a", "b", "secret", "secret-too")):
        rig.pending.add_item(item(name, offset))
    rig.pending.start(writers=1)
    begun = []
    for _ in range(4):
        begun.append(await rig.take())
        rig.end(begun[-1])
    assert [each.row.name for each in begun] == ["secret", "secret-too", "a", "b"]
    await rig.pending.stop()
    assert rig.defects == []


async def test_rows_when_one_of_a_lower_wave_was_not_tried_yet_then_others_wait_for_it() -> None:
    """Such as while it is not known whether it is ours to write."""
    rig = Rig(wave_of=lambda row: 0 if row.name == "secret" else 1)
    rig.pending.start(writers=10)
    secret, other = item("secret", 0), item("other", 1)
    rig.pending.add_item(other)
    rig.pending.add_item(secret)
    assert {(await rig.take()).row.name for _ in range(2)} == {"other", "secret"}
    rig.end(other, 0.01)
    rig.end(secret, 0.02)
    assert await rig.take() is secret
    assert await rig.is_idle()
    rig.end(secret)
    assert await rig.take() is other
    await rig.pending.stop()
    assert rig.defects == []


async def test_rows_when_one_of_a_lower_wave_cannot_be_written_for_now_then_it_holds_nothing_up() -> None:
    rig = Rig(wave_of=lambda row: 0 if row.name == "secret" else 1)
    rig.pending.start(writers=10)
    secret, other = item("secret", 0), item("other", 1)
    rig.pending.add_item(secret)
    rig.pending.add_item(other)
    assert await rig.take() is secret
    assert await rig.is_idle()
    rig.end(secret, secret.delays.next_delay())
    assert await rig.take() is other
    assert await rig.take() is secret
    await rig.pending.stop()
    assert rig.defects == []
