"""When a drifted object is repaired: at once, unless somebody keeps undoing it, then ever more slowly."""

from __future__ import annotations

from datetime import datetime, timedelta

from services.agent.objects import ObjectKey
from services.common.backoff import Backoff

PEACE = timedelta(seconds=60)
"""So long without a repair, and the quarrel is forgotten."""

FREE_REPAIRS = 3


class RepairPace:
    """Repairs of one instance's objects."""

    def __init__(self) -> None:
        self._quarrels: dict[ObjectKey, tuple[int, Backoff, datetime]] = {}

    def next_repair(self, key: ObjectKey, now: datetime) -> datetime | None:
        """When to repair ``key``; None for at once."""
        count, delays, last = self._quarrels.get(key, (0, Backoff(limit=30), now))
        if now - last > PEACE:
            count, delays = 0, Backoff(limit=30)
        self._forget_old(now)
        self._quarrels[key] = (count + 1, delays, now)
        return None if count < FREE_REPAIRS else now + timedelta(seconds=delays.next())

    def _forget_old(self, now: datetime) -> None:
        if len(self._quarrels) > 1000:  # noqa: PLR2004 - a bound on memory, no rule
            self._quarrels = {key: entry for key, entry in self._quarrels.items() if now - entry[2] <= PEACE}
