"""A semaphore that is fair between lanes (usually tenants): few slots for each, lanes in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from services.common.queueing.work_queue import Place, WorkQueue


class FairSemaphore:
    """At most ``limit`` slots are held at once, and ``limit_per_lane`` of them in one lane."""

    def __init__(self, limit: int, limit_per_lane: int) -> None:
        self._waiting: WorkQueue[asyncio.Future[None]] = WorkQueue(limit, limit_per_lane)

    @asynccontextmanager
    async def slot_of(self, lane: str) -> AsyncGenerator[None]:
        """Wait for ``lane``'s turn, and hold a slot until the block ends."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.add_key(slot, Place(lane))
        self._give_slots()
        try:
            await slot
            yield
        finally:
            self._free(slot)

    def _give_slots(self) -> None:
        while (slot := self._waiting.next_key(0.0)) is not None:
            if not slot.done():
                slot.set_result(None)

    def _free(self, slot: asyncio.Future[None]) -> None:
        if self._waiting.is_in_progress(slot):
            self._waiting.finish_key(slot)
        else:
            self._waiting.remove_key(slot)  # whoever waited has given up
        self._give_slots()
