"""Explains to operators why an overloaded instance is not relieved yet. Pure; ``relief.py`` relieves it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.pools.pool_rows import Burdens, Overload, Patience
from services.planner.domain.fleet.pools.pool_size import OVERLOAD
from services.planner.domain.fleet.pools.scaling import find_veto_of_moves, instances_rearranged, scale


def instances_to_relieve(instance: str, fleet: Fleet, burdens: Burdens, now: datetime) -> set[str]:
    """Ids of the instances whose tenants :func:`explain_overload` needs; none if it needs none."""
    if instance not in burdens.overloads or find_veto_of_moves(fleet):
        return set()
    return instances_rearranged(replace(fleet, pools={}), _as_due_now(instance, burdens, now), now, veto="")


def explain_overload(instance: str, fleet: Fleet, burdens: Burdens, now: datetime) -> str:
    """Why an instance still carries more than it should; empty if it did not at the last look.

    Args:
        instance: its id.
        fleet: all rows, with the load of all instances; with the tenants of :func:`instances_to_relieve`, their loads,
            and what is on these instances.
        burdens: of the last look.
        now: the time.
    """
    overload = burdens.overloads.get(instance)
    if overload is None:
        return ""
    carries = f"it carries more than {OVERLOAD:.0%} of its capacity"
    if veto := find_veto_of_moves(fleet):
        return f"{carries}, and no tenant leaves it for now: {veto}"
    if fleet.is_down(instance):
        return f"{carries}, and is down: remediation moves its tenants"
    leaving = scale(replace(fleet, pools={}), _as_due_now(instance, burdens, now), now, Patience()).orders
    if not leaving:
        return f"{carries}, and cannot be relieved: no other of its region, ring, class and owner takes a tenant of it"
    at = overload.relieved_at.isoformat(timespec="seconds")
    return f"{carries}; from {at} on tenants leave it unless it carries less by then: {len(leaving)}"


def _as_due_now(instance: str, burdens: Burdens, now: datetime) -> Burdens:
    """The burdens as if this instance alone had to be relieved now."""
    return replace(burdens, overloads={instance: Overload(instance, now)})
