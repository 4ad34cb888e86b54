"""Follows gitops.fleet, and reports changes of the fleet."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from services.agent.objects.fleet import Fleet
from services.common.clock import Clock
from services.common.kafka import NewsReader, TopicFollower
from services.common.messages import FleetInstance

log = structlog.get_logger(__name__)


class FleetFollower:
    """Follows the fleet, which operators change. A tenant's row asks for an update at once."""

    def __init__(self, fleet: Fleet, reader: NewsReader[FleetInstance], clock: Clock) -> None:
        """``fleet`` is what ``reader`` has read so far."""
        self.fleet = fleet
        self._topic = TopicFollower(reader, self._take_in, clock)
        self._listeners: list[Callable[[], None]] = []

    def call_on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever instances of our cluster were added, removed, or moved to another namespace."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """Follow for ever."""
        await self._topic.follow()

    async def look_for(self, instance: str) -> None:
        """Return once the fleet knows ``instance``, or gitops.fleet was read to its end without it.

        A row may come before the row of its instance, because they are on two topics.
        """
        if not self.fleet.knows(instance):
            await self._topic.catch_up()

    def _take_in(self, rows: list[FleetInstance]) -> None:
        if self.fleet.store_rows(rows):
            log.info("the fleet has changed", instances=sorted(self.fleet.namespaces))
            for listener in self._listeners:
                listener()
