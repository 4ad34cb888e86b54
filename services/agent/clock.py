"""Time as an argument: the wall clock and timers, so that tests can turn them by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Do not call."""


class Clock(Protocol):
    """Wall time and calls in the future."""

    def now(self) -> datetime:
        """The time in UTC."""

    def call_at(self, when: datetime, call: Callable[[], None]) -> Timer:
        """Call once ``when`` has come."""


async def pause(clock: Clock, delay: timedelta) -> None:
    """Return after ``delay``."""
    over = asyncio.Event()
    timer = clock.call_at(clock.now() + delay, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


class LoopClock:
    """The real time, with timers of the running event loop."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)

    def call_at(self, when: datetime, call: Callable[[], None]) -> Timer:
        """Call once ``when`` has come."""
        delay = max(0.0, (when - self.now()).total_seconds())
        return asyncio.get_running_loop().call_later(delay, call)
