"""A clock that stands still until it is told to go on to the next moment that somebody awaits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

MOST_MOMENTS = 1000
TURNS_OF_THE_LOOP = 50
"""Until nothing happens any more without time passing."""


@dataclass
class FakeClock:
    now: float = 1000.0
    _awaited: dict[tuple[float, int], Callable[[], Any]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        with self._calls_at(self.now + seconds, over.set):
            await over.wait()

    @asynccontextmanager
    async def timeout_at(self, when: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as limit:
            with self._calls_at(when, lambda: limit.reschedule(0)):
                yield

    async def until(self, condition: Callable[[], Any]) -> None:
        """Let time pass until ``condition`` holds."""
        for _ in range(MOST_MOMENTS):
            for _ in range(TURNS_OF_THE_LOOP):
                await asyncio.sleep(0)
            if condition():
                return
            self._go_on()
        raise AssertionError(f"not so after {MOST_MOMENTS} moments")

    def _go_on(self) -> None:
        moment = min(self._awaited)
        self.now = max(self.now, moment[0])
        self._awaited.pop(moment)()

    @contextmanager
    def _calls_at(self, when: float, call: Callable[[], Any]) -> Iterator[None]:
        moment = (when, next(self._numbers))
        self._awaited[moment] = call
        try:
            yield
        finally:
            self._awaited.pop(moment, None)
