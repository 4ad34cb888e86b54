"""``python -m tests.component.agent.startled_agent``: at SIGUSR1 its API server is out of reach, and back at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from services.common.reachability import Reachability


async def leave_when_told(
    _: Reachability, leave: Callable[[], Awaitable[None]], join: Callable[[], Awaitable[None]]
) -> None:
    """In place of :meth:`Reachability.leave_while_silent`, whose timing nobody can choose."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    while True:
        await told.wait()
        told.clear()
        await leave()
        await join()


if __name__ == "__main__":
    Reachability.leave_while_silent = leave_when_told  # type: ignore[method-assign]
    import services.agent.__main__  # noqa: F401 - it runs
