"""Why the process ends: a signal, or a defect that must not be lived with."""

from __future__ import annotations

import asyncio
import signal

import structlog

log = structlog.get_logger(__name__)


class Shutdown:
    """The wish to end, and what led to it. Made in the loop that it ends."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._defect: BaseException | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._asked.set)

    def fail_with(self, error: BaseException) -> None:
        """Something failed that nobody handles."""
        log.error("defect", error=repr(error), exc_info=error)
        self._defect = self._defect or error
        self._asked.set()

    def reason(self) -> str:
        """Empty while the process shall live."""
        return "stopping" if self._asked.is_set() else ""

    async def wait(self, *running: asyncio.Task[None]) -> None:
        """Until the process is asked to end, or one of ``running`` fails."""
        for task in running:
            task.add_done_callback(self._started)
        await self._asked.wait()

    def raise_defect(self) -> None:
        """End with the defect, if there was one."""
        if self._defect is not None:
            raise SystemExit(1) from self._defect

    def _started(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            self.fail_with(error)
