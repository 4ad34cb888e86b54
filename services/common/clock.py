"""Time as an argument: the wall clock, a monotonic clock, and timers, so that tests can control them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """The current time, and timers. Durations are seconds."""

    def now(self) -> datetime:
        """The time in UTC. It may be set back."""

    def time(self) -> float:
        """Monotonic seconds. May be called on any thread."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call once ``seconds`` have passed."""

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""

    def timeout_at(self, when: float) -> AbstractAsyncContextManager[object]:
        """Cancel the block when :meth:`time` reaches ``when``, and raise TimeoutError."""


class SystemClock:
    """The real time, with timers of the running event loop."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)

    def time(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call once ``seconds`` have passed."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), call)

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        await asyncio.sleep(seconds)

    def timeout_at(self, when: float) -> AbstractAsyncContextManager[object]:
        """Cancel the block when :meth:`time` reaches ``when``, and raise TimeoutError."""
        return asyncio.timeout(when - self.time())
