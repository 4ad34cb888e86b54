"""Several streams as one, each in its own order. Called by :mod:`reflector` for collections followed in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

ItemT = TypeVar("ItemT")


async def merged(streams: Sequence[AsyncGenerator[ItemT]]) -> AsyncGenerator[ItemT]:
    """Items of all ``streams`` as they come; ends with the first that ends or fails, and closes the others."""
    if len(streams) == 1:  # the rule: spared the way through a queue
        async with aclosing(streams[0]) as items:
            async for item in items:
                yield item
        return
    ready: asyncio.Queue[ItemT | _End] = asyncio.Queue(maxsize=1)
    pumps = [asyncio.create_task(_pump(stream, ready)) for stream in streams]
    try:
        while not isinstance(next_item := await ready.get(), _End):
            yield next_item
        if next_item.error is not None:
            raise next_item.error
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)


@dataclass(frozen=True, slots=True)
class _End:
    """A stream gives nothing more."""

    error: Exception | None = None


async def _pump(stream: AsyncGenerator[ItemT], ready: asyncio.Queue[ItemT | _End]) -> None:
    end = _End()
    try:
        async with aclosing(stream) as items:
            async for item in items:
                await ready.put(item)
    except Exception as error:
        end = _End(error)
    await ready.put(end)
