"""How many moves engine instances have places for while changes of others wait. Pure.

What moves a tenant takes the same planners, brokers, agents and API servers as everybody's changes do, and nobody who
is not moved shall notice. So moves give way: where changes wait, an instance moves one tenant at a time, and one more
only after a time in which none did (additive increase, multiplicative decrease, as TCP has it: RFC 5681).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

CALM = timedelta(seconds=30)
"""Without changes that wait, until there is place for one move more."""
STANDING = timedelta(minutes=1)
"""After which a move that takes no step gives way already: it waits for its tenant, and costs nobody anything."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Of moves that give way."""

    places: int
    """Of each instance."""
    since: datetime
    """When changes waited last, or when it became so many."""


def next_pace(known: Pace | None, now: datetime, at_once: int, *, is_waiting: bool) -> Pace | None:
    """None: moves give way to nobody.

    Args:
        known: the one of before.
        now: the time.
        at_once: how many moves an instance has places for if nobody waits.
        is_waiting: whether changes do.
    """
    pace = known
    if is_waiting:
        pace = Pace(1, now)
    elif known is not None and now - known.since >= CALM:
        pace = Pace(known.places + 1, now)
    return pace if pace is not None and pace.places < at_once else None
