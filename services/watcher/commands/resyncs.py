"""Lists each kind anew from time to time, so that the log of commands always has a complete list although it forgets.

Run by :mod:`services.watcher.leadership`, next to the feeds. Kinds take turns, so no two kinds are listed at a time.
The length of a turn varies, so watchers that started together do not list together. Listed resources are sent as slowly
as after a start, and behind every change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from services.common.clock import Clock, SystemClock

JITTER = 0.25
"""The share by which a turn may be shorter."""


class Listed(Protocol):
    """A followed kind."""

    @property
    def complete_epoch(self) -> int:
        """Epoch of the newest list that was sent completely."""

    @property
    def is_complete(self) -> bool:
        """Whether no newer list is being sent."""

    def list_anew(self) -> None:
        """Begin a new list."""


@dataclass(frozen=True, slots=True)
class Resyncs:
    """The turns of a watcher's kinds."""

    feeds: Sequence[Listed]
    interval: timedelta
    """Each kind is listed once in this time."""
    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.random

    async def run(self) -> None:
        """At the end of each turn, list the kind anew whose list is the oldest; for ever.

        A list that is still being sent is not begun anew: that would delay its end.
        """
        while True:
            await self.clock.sleep(self._turn_seconds())
            complete = [feed for feed in self.feeds if feed.is_complete]
            if complete:
                min(complete, key=lambda feed: feed.complete_epoch).list_anew()

    def _turn_seconds(self) -> float:
        return self.interval.total_seconds() / len(self.feeds) * (1 - JITTER * self.chance())
