"""How many moves engine instances have places for while changes of others wait. Pure.

What moves a tenant takes the same planners, brokers, agents and API servers as everybody's changes do, and nobody who
is not moved shall notice. So moves give way: where changes wait, an instance moves one tenant at a time, and one more
after each while in which none did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

INCREASE_AFTER = timedelta(seconds=30)
"""Without changes that wait, until there is place for one move more."""
STALLED_AFTER = timedelta(minutes=1)
"""A move that has taken no step for so long does not hold up others any more: as a rule it waits for its tenant."""
MIN_SLOW_TENANTS, MAX_SLOW_SHARE = 3, 0.05
"""So many tenants at least, and more than this share: some keep their own changes waiting."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How many tenants of an engine cluster have changed something of late."""

    tenants: int
    slow: int
    """Those of them whose quickest change has taken longer than it may."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many moves may go on at once while they give way to changes that wait, or have waited of late."""

    places: int
    """For moves, of each instance."""
    since: datetime
    """When changes waited last, or when ``places`` became one more."""


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
