"""Who may go next: a bounded number at once, few of one tenant, tenants in turn. No I/O."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """At most ``total`` at once and ``each`` of one tenant; who waits is served tenant by tenant."""

    def __init__(self, total: int, each: int) -> None:
        self._free, self._each = total, each
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """In the order of the tenants' turns."""

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncGenerator[None]:
        """Wait for ``tenant``'s turn and hold it for as long as the block lasts."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(tenant, turn)
            raise
        try:
            yield
        finally:
            self._leave(tenant)

    def _admit(self) -> None:
        """Give free places to the tenants whose turn it is; who is served goes to the end of the line."""
        while self._free and (tenant := self._next()) is not None:
            line = self._waiting.pop(tenant)
            turn = line.popleft()
            if line:
                self._waiting[tenant] = line
            self._free -= 1
            self._running[tenant] += 1
            turn.set_result(None)

    def _next(self) -> str | None:
        """Who has the fewest, and among these who has waited longest."""
        fitting = (tenant for tenant in self._waiting if self._running[tenant] < self._each)
        return min(fitting, key=lambda tenant: self._running[tenant], default=None)

    def _withdraw(self, tenant: str, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():
            self._leave(tenant)  # admitted in the moment it gave up
            return
        line = self._waiting.get(tenant)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[tenant]

    def _leave(self, tenant: str) -> None:
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._admit()
