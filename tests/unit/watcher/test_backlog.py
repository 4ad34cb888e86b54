from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.common.kafka.dead_letters import SourceMessage
from services.watcher.backlog import Backlog, Item
from services.watcher.ledger import Position
from tests.unit.watcher.manifests import row

DEADLINE_SECONDS = 5
SOURCE = SourceMessage("gitops.workspace", 0, 0, b"k", b"v", {})


def item(name: str, offset: int, partition: int = 0, **columns: Any) -> Item:
    return Item(row(name, **columns), Position(partition, offset), SOURCE)


async def take(backlog: Backlog) -> Item:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await backlog.take()


async def is_empty(backlog: Backlog) -> bool:
    """Whether a writer that asks now would have to wait."""
    asking = asyncio.ensure_future(backlog.take())
    for _ in range(5):
        await asyncio.sleep(0)
    done = asking.done()
    asking.cancel()
    return not done


@pytest.fixture
async def backlog() -> Backlog:
    return Backlog()


async def test_rows_when_of_different_resources_then_they_are_taken_in_order_of_arrival(backlog: Backlog) -> None:
    for offset, name in enumerate(("a", "b", "c")):
        assert backlog.add(item(name, offset)) is None
    assert [(await take(backlog)).row.name for _ in range(3)] == ["a", "b", "c"]


async def test_row_when_a_newer_one_of_the_same_resource_comes_then_only_that_is_written(backlog: Backlog) -> None:
    older, newer = item("a", 0), item("a", 1, status="{}")
    backlog.add(older)
    assert backlog.add(newer) is older
    assert await take(backlog) is newer
    assert await is_empty(backlog)


async def test_row_when_one_of_the_same_resource_is_being_written_then_it_waits(backlog: Backlog) -> None:
    first, second = item("a", 0), item("a", 1)
    backlog.add(first)
    await take(backlog)
    assert backlog.add(second) is None
    assert await is_empty(backlog)
    backlog.finish(first)
    assert await take(backlog) is second


async def test_row_when_set_aside_then_others_go_on_and_it_comes_back(backlog: Backlog) -> None:
    stuck, other = item("stuck", 0), item("other", 1)
    backlog.add(stuck)
    backlog.add(other)
    assert await take(backlog) is stuck
    assert backlog.set_aside(stuck, 0.01) is None
    assert await take(backlog) is other
    assert await take(backlog) is stuck


async def test_row_when_set_aside_while_a_newer_one_waits_then_the_newer_one_comes_back(backlog: Backlog) -> None:
    older, newer = item("a", 0), item("a", 1)
    backlog.add(older)
    await take(backlog)
    backlog.add(newer)
    assert backlog.set_aside(older, 0.01) is older
    assert await take(backlog) is newer


async def test_row_when_set_aside_then_a_newer_one_does_not_jump_its_delay(backlog: Backlog) -> None:
    older, newer = item("a", 0), item("a", 1)
    backlog.add(older)
    await take(backlog)
    backlog.set_aside(older, 0.01)
    assert backlog.add(newer) is older
    assert await is_empty(backlog)
    assert await take(backlog) is newer


async def test_partition_when_dropped_then_its_rows_are_not_written_and_others_are(backlog: Backlog) -> None:
    backlog.add(item("a", 0, partition=1))
    kept = item("b", 0, partition=2)
    backlog.add(kept)
    await backlog.drop([1])
    assert await take(backlog) is kept
    assert await is_empty(backlog)


async def test_partition_when_dropped_then_what_is_being_written_is_waited_for(backlog: Backlog) -> None:
    writing = item("a", 0, partition=1)
    backlog.add(writing)
    await take(backlog)
    dropping = asyncio.ensure_future(backlog.drop([1]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not dropping.done()
    backlog.set_aside(writing, 0.001)  # even if it fails, it does not come back
    async with asyncio.timeout(DEADLINE_SECONDS):
        await dropping
    assert len(backlog) == 0


async def test_resource_when_dropped_and_read_again_then_it_has_one_writer_at_a_time(backlog: Backlog) -> None:
    backlog.add(item("a", 0))
    await backlog.drop([0])
    again, newer = item("a", 0), item("a", 1)
    backlog.add(again)
    assert await take(backlog) is again
    backlog.add(newer)
    assert await is_empty(backlog)
    backlog.finish(again)
    assert await take(backlog) is newer


async def test_row_when_another_namespace_has_thousands_waiting_then_it_is_next_in_turn(backlog: Backlog) -> None:
    for number in range(5000):
        backlog.add(item(f"web-{number}", number, namespace="busy"))
    quiet = item("web", 5000, namespace="quiet")
    backlog.add(quiet)
    assert quiet in [await take(backlog) for _ in range(2)]
    assert len(backlog) == 4999


async def test_rows_when_several_writers_wait_then_each_gets_one(backlog: Backlog) -> None:
    writers = [asyncio.ensure_future(take(backlog)) for _ in range(3)]
    await asyncio.sleep(0)
    for offset, name in enumerate(("a", "b", "c")):
        backlog.add(item(name, offset))
    assert sorted([(await writer).row.name for writer in writers]) == ["a", "b", "c"]
