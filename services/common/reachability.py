"""Whether a server answers that a process cannot do its work without.

A process that cannot reach it, while others of its service may, gives up what only one of them can have: a lease, its
partitions. Called by watchers and agents; planners see to it in :mod:`services.planner.database`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from services.common.clock import Clock, SystemClock
from services.common.errors import Retry

log = structlog.get_logger(__name__)

ASK_EVERY_SECONDS = 1.0
ANSWER_SECONDS = 2.0
SILENT_SECONDS = 3.0
"""One lost packet, or one slow answer, is nothing."""
CALM_SECONDS = 60.0
"""Without a slow answer, until :class:`Strain` is over."""
MOST_STRAIN = 8
"""Answers may take 16 s then, and a silence lasts 24 s."""


@dataclass(slots=True)
class Strain:
    """By how much longer an answer may take: twice as long each time that a process has left, or has waited in vain.

    A server that is slow answers others no sooner. Whoever joins reads and lists everything, which makes it slower.
    """

    factor: int = 1
    slow_at: float = -math.inf
    """When it last took longer than :data:`ANSWER_SECONDS`."""

    def factor_at(self, now: float) -> int:
        """For a question that is asked ``now``; 1 once all has been calm."""
        if now - self.slow_at >= CALM_SECONDS:
            self.factor = 1
        return self.factor

    def note_answer(self, asked_at: float, now: float) -> None:
        """It came, or was given up, ``now``."""
        if now - asked_at >= ANSWER_SECONDS:
            self.slow_at = now

    def grow(self) -> None:
        """Without effect if it was refused at once: that is not slow."""
        self.factor = min(2 * self.factor, MOST_STRAIN)


@dataclass(frozen=True, slots=True)
class Reachability:
    """Asks one server."""

    server: str
    """As operators know it."""
    ask: Callable[[], Awaitable[object]]
    """Raises Retry if it does not answer."""
    clock: Clock = field(default_factory=SystemClock)

    async def leave_while_silent(
        self, leave: Callable[[], Awaitable[None]], join: Callable[[], Awaitable[None]]
    ) -> None:
        """Call ``leave`` whenever it falls silent, and ``join`` when it answers again; for ever."""
        strain = Strain()
        while True:
            await self.wait_for_silence(strain)
            strain.grow()
            await leave()
            await self.wait_for_answer(strain)
            await join()

    async def wait_for_silence(self, strain: Strain | None = None) -> None:
        """Return when it has not answered for :data:`SILENT_SECONDS`, or longer under ``strain``.

        It takes two questions at least: what has passed while this process was stopped is no silence of the server's.
        """
        strain = Strain() if strain is None else strain
        silent_since: float | None = None
        while True:
            asked_at = self.clock.time()
            if await self._is_answered(strain):
                silent_since = None
            elif silent_since is None:
                silent_since = asked_at
            elif self.clock.time() - silent_since >= SILENT_SECONDS * strain.factor:
                break
            await self.clock.sleep(ASK_EVERY_SECONDS)
        log.warning("out of reach; others may do better", server=self.server)

    async def wait_for_answer(self, strain: Strain | None = None) -> None:
        """Return when it answers; under ``strain`` it may take longer."""
        strain = Strain() if strain is None else strain
        while not await self._is_answered(strain):
            strain.grow()
            await self.clock.sleep(ASK_EVERY_SECONDS)
        log.info("within reach", server=self.server)

    async def _is_answered(self, strain: Strain) -> bool:
        asked_at = self.clock.time()
        try:
            async with self.clock.timeout_at(asked_at + ANSWER_SECONDS * strain.factor_at(asked_at)):
                await self.ask()
        except (Retry, TimeoutError):
            return False
        finally:
            strain.note_answer(asked_at, self.clock.time())
        return True
