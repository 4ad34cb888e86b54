"""A sign of life of a loop, for a probe that is answered on another thread."""

from __future__ import annotations

import asyncio

from services.common.clock import Clock, SystemClock

SECONDS = 1.0
SILENT_SECONDS = 15.0
"""Longer than any turn of a loop at work: a large batch takes a second or two, a collection of garbage less."""


class Heartbeat:
    """When a loop last came round. It counts as alive from here on: a loop that never starts is reported, too."""

    def __init__(self, clock: Clock | None = None, limit: float = SILENT_SECONDS) -> None:
        self._clock, self._limit = clock or SystemClock(), limit
        self._at = self._clock.time()

    async def keep(self) -> None:
        """Beat for ever, as a task of the loop."""
        while True:
            self.beat()
            await asyncio.sleep(SECONDS)

    def beat(self) -> None:
        """The loop has come round."""
        self._at = self._clock.time()

    def silence(self) -> str:
        """Why the process should be replaced; "" while the loop comes round."""
        silent = self._clock.time() - self._at
        return f"the loop has not come round for {silent:.0f} s" if silent > self._limit else ""
