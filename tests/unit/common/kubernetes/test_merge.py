from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from services.common.errors import Retry
from services.common.kubernetes.merge import merged

DEADLINE_SECONDS = 30


class Source:
    """A stream that is fed by the test, and says when it was closed."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[int | Exception | None] = asyncio.Queue()
        self.closed = False

    def feed(self, *items: int | Exception | None) -> None:
        for item in items:
            self.items.put_nowait(item)

    async def stream(self) -> AsyncGenerator[int]:
        try:
            while (item := await self.items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed = True


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_merged_when_streams_have_items_then_each_keeps_its_order(count: int) -> None:
    sources = [Source() for _ in range(count)]
    for number, source in enumerate(sources):
        source.feed(*(number * 100 + item for item in range(5)))
    seen: list[int] = []
    async with asyncio.timeout(DEADLINE_SECONDS), aclosing(merged([item.stream() for item in sources])) as items:
        async for item in items:
            seen.append(item)
            if len(seen) == 5 * count:
                break
    for number in range(count):
        assert [item for item in seen if item // 100 == number] == [number * 100 + item for item in range(5)]
    assert all(source.closed for source in sources)


@pytest.mark.parametrize("count", [1, 2])
async def test_merged_when_a_stream_fails_then_its_error_is_raised_after_its_items_and_all_are_closed(
    count: int,
) -> None:
    sources = [Source() for _ in range(count)]
    sources[-1].feed(1, 2, Retry("broke"))
    items = merged([source.stream() for source in sources])
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert [await anext(items), await anext(items)] == [1, 2]
        with pytest.raises(Retry, match="broke"):
            await anext(items)
    assert all(source.closed for source in sources)


async def test_merged_when_a_stream_ends_then_the_others_go_on() -> None:
    sources = [Source(), Source()]
    sources[0].feed(1, None)
    merging = merged([source.stream() for source in sources])
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await anext(merging) == 1
        sources[1].feed(2, None)
        assert [item async for item in merging] == [2]
    assert sources[1].closed
