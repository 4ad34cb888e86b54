"""Whether a server answers without which a process cannot work.

A process that cannot reach the server, while other processes of its service may, gives up what only one of them can
have: a lease, or its partitions. Used by watchers and agents. Planners do this in :mod:`services.planner.database`.
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
"""A silence that is shorter may be one lost packet, or one slow answer."""
CALM_SECONDS = 60.0
"""How long no answer may be slow before :class:`Strain` ends."""
MOST_STRAIN = 8
"""The greatest factor: answers may then take 16 s, and a silence lasts 24 s."""


@dataclass(slots=True)
class Strain:
    """By what factor an answer may take longer. It doubles each time a process has left, or has waited in vain.

    A slow server answers other processes no sooner. A process that joins reads and lists everything, which makes the
    server slower.
    """

    factor: int = 1
    slow_at: float = -math.inf
    """When an answer last took longer than :data:`ANSWER_SECONDS`."""

    def factor_at(self, now: float) -> int:
        """The factor for a question that is asked ``now``; 1 when no answer was slow for long enough."""
        if now - self.slow_at >= CALM_SECONDS:
            self.factor = 1
        return self.factor

    def note_answer(self, asked_at: float, now: float) -> None:
        """Record an answer, or a time-out, at ``now``."""
        if now - asked_at >= ANSWER_SECONDS:
            self.slow_at = now

    def grow(self) -> None:
        """Double the factor, unless the server refused at once, which is not slow."""
        self.factor = min(2 * self.factor, MOST_STRAIN)


@dataclass(frozen=True, slots=True)
class Reachability:
    """Asks one server whether it answers."""

    server: str
    """The server's name for operators."""
    ask: Callable[[], Awaitable[object]]
    """Asks the server. Raises Retry if it does not answer."""
    clock: Clock = field(default_factory=SystemClock)

    async def leave_while_silent(
        self, leave: Callable[[], Awaitable[None]], join: Callable[[], Awaitable[None]]
    ) -> None:
        """Call ``leave`` whenever the server falls silent, and ``join`` when it answers again; for ever."""
        strain = Strain()
        while True:
            await self.wait_for_silence(strain)
            strain.grow()
            await leave()
            await self.wait_for_answer(strain)
            await join()

    async def wait_for_silence(self, strain: Strain | None = None) -> None:
        """Return when the server has not answered for :data:`SILENT_SECONDS`, or longer under ``strain``.

        That takes at least two questions: the time for which this process was stopped is no silence of the server.
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
        """Return when the server answers. Under ``strain`` an answer may take longer."""
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
