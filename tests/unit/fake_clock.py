"""Time that stands still until it is advanced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MOST_MOMENTS = 1000
TURNS_OF_THE_LOOP = 60
"""Until nothing happens any more without time passing."""


@dataclass
class FakeTimer:
    when: float
    call: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Of all services' tests; ``seconds`` may be set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._timers: list[FakeTimer] = []

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    def time(self) -> float:
        return self.seconds

    def call_later(self, seconds: float, call: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(self.seconds + seconds, call)
        self._timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    @asynccontextmanager
    async def timeout_at(self, when: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as limit:
            timer = self.call_later(when - self.seconds, lambda: limit.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Let time pass, timers fire in order, and everything that follows from them happen."""
        end = self.seconds + seconds
        while (timer := self._next_timer()) is not None and timer.when <= end:
            await self._fire(timer)
        self.seconds = end
        await settle()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Let time pass until ``condition`` holds."""
        for _ in range(MOST_MOMENTS):
            await settle()
            if condition():
                return
            timer = self._next_timer()
            assert timer is not None, "nothing will happen any more"
            await self._fire(timer)
        raise AssertionError(f"not so after {MOST_MOMENTS} moments")

    def _next_timer(self) -> FakeTimer | None:
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        return min(self._timers, key=lambda timer: timer.when, default=None)

    async def _fire(self, timer: FakeTimer) -> None:
        self._timers.remove(timer)
        self.seconds = max(self.seconds, timer.when)
        timer.call()
        await settle()


async def settle() -> None:
    """Let all tasks run until none has anything left to do."""
    for _ in range(TURNS_OF_THE_LOOP):
        await asyncio.sleep(0)
