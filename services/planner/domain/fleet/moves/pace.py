"""How many moves engine instances have places for while changes of tenants wait. Pure.

Moves use the same planners, brokers, agents and API servers as everybody's changes, and tenants that are not moved must
not notice. So moves give way: while changes wait, an instance takes part in one move at a time, and in one more after
each period without changes that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

INCREASE_AFTER = timedelta(seconds=30)
"""How long no change has to wait until there is a place for one more move."""
STALLED_AFTER = timedelta(minutes=1)
"""How long a move that takes no step holds up others: after that, it most likely waits for its tenant."""
MIN_SLOW_TENANTS, MAX_SLOW_SHARE = 3, 0.05
"""Changes wait if those of so many tenants, and of more than this share, are slow: a few tenants slow down only
themselves."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How quickly recent changes of an engine cluster's tenants took effect."""

    tenants: int
    slow: int
    """How many of them had no change that was quick enough."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many moves may go on at once while changes wait, or have waited of late."""

    places: int
    """How many moves each instance may take part in."""
    since: datetime
    """When changes waited last, or when ``places`` grew."""


def is_waited(clusters: Iterable[Latency]) -> bool:
    """Whether changes wait in any of these clusters."""
    return any(each.slow >= MIN_SLOW_TENANTS and each.slow > MAX_SLOW_SHARE * each.tenants for each in clusters)


def next_pace(current: Pace | None, now: datetime, at_once: int, *, is_waiting: bool) -> Pace | None:
    """The pace from now on; None: moves give way to nobody.

    Args:
        current: the pace until now, or None.
        now: the time.
        at_once: how many moves an instance has places for if nobody waits.
        is_waiting: whether changes do.
    """
    pace = current
    if is_waiting:
        pace = Pace(1, now)
    elif current is not None and now - current.since >= INCREASE_AFTER:
        pace = Pace(current.places + 1, now)
    return pace if pace is not None and pace.places < at_once else None
