"""Time that only grows, as an argument: tests turn it by hand."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Clock(Protocol):
    """Seconds since some moment, and waits for later ones."""

    def time(self) -> float:
        """Now."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""

    def timeout_at(self, when: float) -> AbstractAsyncContextManager[object]:
        """What is inside is cancelled at ``when``, and TimeoutError raised."""


class LoopClock:
    """That of the running event loop."""

    def time(self) -> float:
        """Now."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)

    def timeout_at(self, when: float) -> AbstractAsyncContextManager[object]:
        """What is inside is cancelled at ``when``, and TimeoutError raised."""
        return asyncio.timeout_at(when)
