"""Lists each kind anew now and then, because the log of commands forgets: it is to hold a complete list at any time.

Run by :mod:`services.watcher.leadership`, beside the feeds. Kinds take turns, so that no two are listed at a time, and
turns have no fixed length, so that watchers which started together do not list together. What lists show goes out as
slowly as after a start, and behind every change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from services.common.clock import Clock, SystemClock

JITTER = 0.25
"""The share of a turn by which it may be shorter."""


class Listed(Protocol):
    """A kind that is followed."""

    @property
    def complete_epoch(self) -> int:
        """Of its newest list that was sent as a whole."""

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
    """In which each kind is listed once."""
    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.random

    async def run(self) -> None:
        """For ever: when a turn is over, list the kind anew whose list is the oldest.

        A list that is still being sent goes on: to begin another one would delay its end.
        """
        while True:
            await self.clock.sleep(self._turn_seconds())
            complete = [feed for feed in self.feeds if feed.is_complete]
            if complete:
                min(complete, key=lambda feed: feed.complete_epoch).list_anew()

    def _turn_seconds(self) -> float:
        return self.interval.total_seconds() / len(self.feeds) * (1 - JITTER * self.chance())
