"""Wakes a consumer of a queue that is not :class:`Workers`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from services.common.clock import Clock


class Wakeup:
    """Belongs to one event loop; may wake several consumers, each of which looks again."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._event = clock, asyncio.Event()

    def wake_consumers(self) -> None:
        """The queue has changed."""
        self._event.set()

    async def wait_until(self, due: float | None) -> None:
        """Return when the queue has changed, or at ``due``, when the next delay ends."""
        self._event.clear()
        if due is None:
            await self._event.wait()
            return
        with suppress(TimeoutError):
            async with self._clock.timeout_at(due):
                await self._event.wait()
