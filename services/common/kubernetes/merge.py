"""Merges several streams into one, each in its own order. :mod:`reflector` uses it to read parts at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

ItemT = TypeVar("ItemT")


async def merged(streams: Sequence[AsyncGenerator[ItemT]]) -> AsyncGenerator[ItemT]:
    """Items of all ``streams`` as they come, until all have ended. Fails with the first that fails. Closes all."""
    if len(streams) == 1:  # spared the way through a queue
        async with aclosing(streams[0]) as items:
            async for item in items:
                yield item
        return
    ready: asyncio.Queue[ItemT | _End] = asyncio.Queue(maxsize=1)
    pumps = [asyncio.create_task(_pump(stream, ready)) for stream in streams]
    running = len(pumps)
    try:
        while running:
            received = await ready.get()
            if not isinstance(received, _End):
                yield received
            elif received.error is not None:
                raise received.error
            else:
                running -= 1
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a stream."""

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
