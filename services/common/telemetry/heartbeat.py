"""A sign of life of an event loop, for a probe that is answered on another thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SECONDS = 1.0
SILENT_SECONDS = 15.0
"""Longer than any turn of a loop at work: a large batch takes a second or two, a collection of garbage less."""


class Heartbeat:
    """When the loop last came round."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """It counts as alive from here on: a loop that never starts is told of, too."""
        self._now, self._at = now, now()

    async def keep(self) -> None:
        """Beat for ever, as a task of the loop."""
        while True:
            self.beat()
            await asyncio.sleep(SECONDS)

    def beat(self) -> None:
        """The loop has come round."""
        self._at = self._now()

    def silence(self) -> str:
        """Why the process should be replaced; "" while the loop comes round."""
        silent = self._now() - self._at
        return f"event loop blocked for {silent:.0f} s" if silent > SILENT_SECONDS else ""
