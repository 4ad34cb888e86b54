"""Long loops in slices, so that the event loop can run other tasks in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TypeVar

ItemT = TypeVar("ItemT")

SLICE = 100
"""Items per turn of the loop."""


async def in_slices(items: Iterable[ItemT], size: int = SLICE) -> AsyncGenerator[ItemT]:
    """Yield ``items``, which must not change meanwhile. Other tasks run after every ``size`` of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
