"""Decides on the order to give up an engine instance that nobody will ever reach again. Pure.

It is retired at once, so that agents leave it, though rows and moves wait for it. What it was to remove counts as
removed from then on (``instance_queries.find_lost_objects``): by that those moves end, and the rows go.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.assignment_orders import require_nobody_pinned, require_served
from services.planner.domain.fleet.rows import EngineInstanceRow, Refused

UNHEARD_FOR = timedelta(minutes=3)
"""Agents report the health of an instance each minute."""


def retire_lost(known: EngineInstanceRow, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """The message for operators, and the fleet afterwards: the very same if nothing has changed. Raises Refused.

    Args:
        known: the instance.
        fleet: all rows, and all tenants.
        at: when it was ordered.
    """
    if known.is_retired:
        return "it is retired", fleet
    _require_unheard_of(known, fleet, at)
    _require_evacuated(known, fleet)
    require_nobody_pinned(known, fleet)
    after = fleet.with_instance(replace(known, state="retired", ordered_at=at, due_at=None, state_message=None))
    require_served(fleet, after)
    ending = sum(known.id in (move.source, move.target) for move in fleet.moves.values() if not move.is_over)
    return f"moves that end without it: {ending}" if ending else "", after


def _require_unheard_of(known: EngineInstanceRow, fleet: Fleet, at: datetime) -> None:
    """Raises Refused unless its agent is silent, or it was never ready: no tenant was ever on that."""
    health = fleet.health.get(known.id)
    if health is None and not known.is_unready and not _would_be_heard_of(known, fleet, at):
        raise Refused(
            f"nothing was ever heard of engine instance {known.id}, and planners may just not have come to it: it was "
            "added within three minutes, or they have heard of no other instance for as long; if there never was "
            f"such an instance, 'gitopsctl engines retire {known.id}' without '--lost', else try again later"
        )
    if health is not None and not fleet.is_out_of_reach(known.id):
        raise Refused(
            f"engine instance {known.id} is heard of: {health.health}, reported at "
            f"{health.reported_at.isoformat(timespec='seconds')}; 'gitopsctl engines drain {known.id}' it instead"
        )
    if health is not None and not known.is_unready and not _is_anything_heard(fleet, at):
        raise Refused(
            f"engine instance {known.id} is {health.health}, as far as planners know, but within three minutes they "
            "have heard of no instance at all: they may just not have come to what agents tell now; try again later"
        )


def _would_be_heard_of(known: EngineInstanceRow, fleet: Fleet, at: datetime) -> bool:
    """Whether its agent had the time to report, and planners receive what agents report now."""
    return known.created_at < at - UNHEARD_FOR and _is_anything_heard(fleet, at)


def _is_anything_heard(fleet: Fleet, at: datetime) -> bool:
    """Whether planners receive what agents report now, be it that an instance cannot be reached.

    Those that fill a rebuilt database, or one of a backup, read reports of days ago first: until they are through,
    every agent seems silent.
    """
    return any(health.reported_at > at - UNHEARD_FOR for health in fleet.health.values())


def _require_evacuated(known: EngineInstanceRow, fleet: Fleet) -> None:
    """No tenant is on it, and none comes to it that cannot go back."""
    here = fleet.tenants.on([known.id])
    if here:
        leaving = sum(fleet.is_on_its_way(tenant) for tenant in here.values())
        raise Refused(
            f"engine instance {known.id} still has tenants: {len(here)}, {leaving} of them on their way to another; "
            "'gitopsctl engines remedies' says what keeps its evacuation, and 'gitopsctl engines moves' how far it is"
        )
    for move in fleet.moves.values():
        if (move.target, move.step) == (known.id, "releasing"):
            raise Refused(
                f"tenant {move.workspace}/{move.namespace} comes to engine instance {known.id}, and cannot go back: "
                f"{move.step}"
            )
