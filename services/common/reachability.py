"""Whether a server answers that a process cannot do its work without.

A process that cannot reach it, while others of its service may, gives up what only one of them can have: a lease, its
partitions. Called by watchers and agents; planners see to it in :mod:`services.planner.database`.
"""

from __future__ import annotations

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
        while True:
            await self.wait_for_silence()
            await leave()
            await self.wait_for_answer()
            await join()

    async def wait_for_silence(self) -> None:
        """Return when it has not answered for :data:`SILENT_SECONDS`.

        It takes two questions at least: what has passed while this process was stopped is no silence of the server's.
        """
        silent_since: float | None = None
        while True:
            asked_at = self.clock.time()
            if await self._answers():
                silent_since = None
            elif silent_since is None:
                silent_since = asked_at
            elif self.clock.time() - silent_since >= SILENT_SECONDS:
                break
            await self.clock.sleep(ASK_EVERY_SECONDS)
        log.warning("out of reach; others may do better", server=self.server)

    async def wait_for_answer(self) -> None:
        """Return when it answers."""
        while not await self._answers():
            await self.clock.sleep(ASK_EVERY_SECONDS)
        log.info("within reach", server=self.server)

    async def _answers(self) -> bool:
        try:
            async with self.clock.timeout_at(self.clock.time() + ANSWER_SECONDS):
                await self.ask()
        except (Retry, TimeoutError):
            return False
        return True
