"""How many moves the instances of an engine cluster have places for while changes of others wait. Pure.

What moves a tenant takes the same planners, brokers, agents and API server as everybody's changes do, and nobody who is
not moved shall notice. So moves give way: where changes wait, an instance moves one tenant at a time, and one more only
after a time in which none did (additive increase, multiplicative decrease, as TCP has it: RFC 5681).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

CALM = timedelta(seconds=30)
"""Without changes that wait, until there is place for one move more."""
STANDING = timedelta(minutes=1)
"""After which a move that takes no step gives way already: it waits for its tenant, and costs nobody anything."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one engine cluster whose moves give way."""

    places: int
    """Of each of its instances."""
    since: datetime
    """When changes waited last, or when it became so many."""


def next_paces(known: Mapping[str, Pace], waiting: Collection[str], now: datetime, at_once: int) -> dict[str, Pace]:
    """By engine cluster; none of one that has all its places.

    Args:
        known: those of before.
        waiting: clusters in which changes wait now.
        now: the time.
        at_once: how many moves an instance has places for if nobody waits.
    """
    paces = {cluster: Pace(1, now) for cluster in waiting}
    for cluster, pace in known.items():
        if cluster not in paces:
            paces[cluster] = Pace(pace.places + 1, now) if now - pace.since >= CALM else pace
    return {cluster: pace for cluster, pace in paces.items() if pace.places < at_once}
