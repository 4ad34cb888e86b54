"""Keeps the fleet as gitops.fleet tells it, and says when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from services.agent.objects.fleet import Fleet
from services.agent.stream.fleet_reader import FleetReader
from services.common.backoff import Backoff
from services.common.clock import Clock
from services.common.errors import Retry

log = structlog.get_logger(__name__)

FOLLOW_SECONDS = 0.5
"""Between two questions for news: operators change the fleet, and a tenant's row asks for it at once."""


class FleetFollower:
    """Reads what is new, one thread at a time."""

    def __init__(self, fleet: Fleet, reader: FleetReader, clock: Clock) -> None:
        """``fleet`` is what ``reader`` has read so far."""
        self.fleet, self._reader, self._clock = fleet, reader, clock
        self._listeners: list[Callable[[], None]] = []
        self._reading = asyncio.Lock()

    def call_on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever instances of our cluster have come, gone, or moved to another namespace."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(FOLLOW_SECONDS)
            await self._keep_up()

    async def look_for(self, instance: str) -> None:
        """Return once the fleet knows ``instance``, or gitops.fleet was read to its end without a word of it.

        A row may come before that of its instance does: they are on two topics.
        """
        if not self.fleet.knows(instance):
            await self._keep_up()

    async def _keep_up(self) -> None:
        """Take in what is new; brokers that do not answer are waited for."""
        delays = Backoff(limit=5)
        while True:
            try:
                return await self._take_in()
            except Retry as error:
                log.warning("the fleet is not to be read", error=str(error))
                await self._clock.sleep(delays.next_delay())

    async def _take_in(self) -> None:
        async with self._reading:
            rows = await asyncio.to_thread(self._reader.read_news)
            if self.fleet.keep_rows(rows):
                log.info("the fleet has changed", instances=sorted(self.fleet.namespaces))
                for listener in self._listeners:
                    listener()
