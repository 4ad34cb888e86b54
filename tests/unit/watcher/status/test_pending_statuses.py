from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.common.kafka import TopicPartition
from services.watcher.status.pending_statuses import PendingStatus, PendingStatuses
from tests.unit.common.kafka.messages import consumed
from tests.unit.watcher.manifests import row

DEADLINE_SECONDS = 5
TOPIC = "gitops.workspace"


def item(name: str, offset: int, partition: int = 0, **columns: Any) -> PendingStatus:
    return PendingStatus(row(name, **columns), consumed(TOPIC, offset, partition=partition))


async def take(backlog: PendingStatuses) -> PendingStatus:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await backlog.next_item()


async def is_empty(backlog: PendingStatuses) -> bool:
    """Whether a writer that asks now would have to wait."""
    asking = asyncio.ensure_future(backlog.next_item())
    for _ in range(5):
        await asyncio.sleep(0)
    done = asking.done()
    asking.cancel()
    return not done


@pytest.fixture
async def backlog() -> PendingStatuses:
    return PendingStatuses()


async def test_rows_when_of_different_resources_then_they_are_taken_in_order_of_arrival(
    backlog: PendingStatuses,
) -> None:
    for offset, name in enumerate(("a", "b", "c")):
        assert backlog.add_item(item(name, offset)) is None
    assert [(await take(backlog)).row.name for _ in range(3)] == ["a", "b", "c"]


async def test_row_when_a_newer_one_of_the_same_resource_comes_then_only_that_is_written(
    backlog: PendingStatuses,
) -> None:
    older, newer = item("a", 0), item("a", 1, status="{}")
    backlog.add_item(older)
    assert backlog.add_item(newer) is older
    assert await take(backlog) is newer
    assert await is_empty(backlog)


async def test_row_when_one_of_the_same_resource_is_being_written_then_it_waits(backlog: PendingStatuses) -> None:
    first, second = item("a", 0), item("a", 1)
    backlog.add_item(first)
    await take(backlog)
    assert backlog.add_item(second) is None
    assert await is_empty(backlog)
    backlog.finish_item(first)
    assert await take(backlog) is second


async def test_row_when_set_aside_then_others_go_on_and_it_comes_back(backlog: PendingStatuses) -> None:
    stuck, other = item("stuck", 0), item("other", 1)
    backlog.add_item(stuck)
    backlog.add_item(other)
    assert await take(backlog) is stuck
    assert backlog.set_item_aside(stuck, 0.01) is None
    assert await take(backlog) is other
    assert await take(backlog) is stuck


async def test_row_when_set_aside_while_a_newer_one_waits_then_the_newer_one_comes_back(
    backlog: PendingStatuses,
) -> None:
    older, newer = item("a", 0), item("a", 1)
    backlog.add_item(older)
    await take(backlog)
    backlog.add_item(newer)
    assert backlog.set_item_aside(older, 0.01) is older
    assert await take(backlog) is newer


async def test_row_when_set_aside_then_a_newer_one_does_not_jump_its_delay(backlog: PendingStatuses) -> None:
    older, newer = item("a", 0), item("a", 1)
    backlog.add_item(older)
    await take(backlog)
    backlog.set_item_aside(older, 0.01)
    assert backlog.add_item(newer) is older
    assert await is_empty(backlog)
    assert await take(backlog) is newer


async def test_partition_when_dropped_then_its_rows_are_not_written_and_others_are(backlog: PendingStatuses) -> None:
    backlog.add_item(item("a", 0, partition=1))
    kept = item("b", 0, partition=2)
    backlog.add_item(kept)
    await backlog.drop_partitions([TopicPartition(TOPIC, 1)])
    assert await take(backlog) is kept
    assert await is_empty(backlog)


async def test_partition_when_dropped_then_what_is_being_written_is_waited_for(backlog: PendingStatuses) -> None:
    writing = item("a", 0, partition=1)
    backlog.add_item(writing)
    await take(backlog)
    dropping = asyncio.ensure_future(backlog.drop_partitions([TopicPartition(TOPIC, 1)]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not dropping.done()
    backlog.set_item_aside(writing, 0.001)  # even if it fails, it does not come back
    async with asyncio.timeout(DEADLINE_SECONDS):
        await dropping
    assert len(backlog) == 0


async def test_resource_when_dropped_and_read_again_then_it_has_one_writer_at_a_time(backlog: PendingStatuses) -> None:
    backlog.add_item(item("a", 0))
    await backlog.drop_partitions([TopicPartition(TOPIC, 0)])
    again, newer = item("a", 0), item("a", 1)
    backlog.add_item(again)
    assert await take(backlog) is again
    backlog.add_item(newer)
    assert await is_empty(backlog)
    backlog.finish_item(again)
    assert await take(backlog) is newer


async def test_row_when_another_namespace_has_thousands_waiting_then_it_is_next_in_turn(
    backlog: PendingStatuses,
) -> None:
    for number in range(5000):
        backlog.add_item(item(f"web-{number}", number, namespace="busy"))
    quiet = item("web", 5000, namespace="quiet")
    backlog.add_item(quiet)
    assert quiet in [await take(backlog) for _ in range(2)]
    assert len(backlog) == 4999


async def test_rows_when_several_writers_wait_then_each_gets_one(backlog: PendingStatuses) -> None:
    writers = [asyncio.ensure_future(take(backlog)) for _ in range(3)]
    await asyncio.sleep(0)
    for offset, name in enumerate(("a", "b", "c")):
        backlog.add_item(item(name, offset))
    assert sorted([(await writer).row.name for writer in writers]) == ["a", "b", "c"]
