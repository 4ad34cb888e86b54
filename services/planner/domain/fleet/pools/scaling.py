"""Brings pools to their size, and relieves overloaded instances. Pure; called at intervals.

This gives orders as operators do, and only such as the rules accept (``planned_fleet.py``):

- A pool grows at once, and shrinks when it has needed less for long (``resizing.py``, ``shrinking.py``).
- Tenants leave an instance that is overloaded for long, in a pool or not (``relief.py``).

While a rollout or an evacuation rearranges the fleet, pools only grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.common.messages import FleetOrder
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.pools.planned_fleet import PlannedFleet, find_members
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience
from services.planner.domain.fleet.pools.pool_size import is_overloaded
from services.planner.domain.fleet.pools.relief import find_alike, relieve_overloaded
from services.planner.domain.fleet.pools.resizing import REBUILT, resize_pool
from services.planner.domain.fleet.rows import HANDED_OVER


@dataclass(frozen=True, slots=True)
class Scaling:
    """What follows from a look at pools and loads: orders, which are accepted, and rows that are written."""

    orders: tuple[FleetOrder, ...]
    pools: tuple[EnginePool, ...]
    """Those that have changed."""
    overloads: tuple[Overload, ...]
    """Those that are new, or have changed."""
    overloads_gone: tuple[str, ...]
    """Ids of instances that are overloaded no more."""


def scale(fleet: Fleet, burdens: Burdens, now: datetime, patience: Patience, veto: str = "") -> Scaling:
    """The orders that bring all pools to their size and relieve instances.

    Args:
        fleet: all rows, with the load of all instances; with the tenants of :func:`instances_rearranged`, and what is
            on these.
        burdens: of the last look.
        now: the time.
        patience: what operators have set.
        veto: why no tenant may be moved now; empty if tenants may.
    """
    planned = PlannedFleet(fleet, burdens, now)
    pools = [resize_pool(pool, planned, patience, veto) for pool in fleet.pools.values()]
    overloads = relieve_overloaded(planned, patience, veto)
    return Scaling(
        tuple(planned.orders),
        tuple(pool for pool in pools if pool != fleet.pools[pool.key]),
        tuple(each for each in overloads.values() if each != burdens.overloads.get(each.engine_instance_id)),
        tuple(instance for instance in burdens.overloads if instance not in overloads),
    )


def instances_rearranged(fleet: Fleet, burdens: Burdens, now: datetime, veto: str) -> set[str]:
    """Ids of the instances whose tenants have to be loaded: some of these may move now, or are on their way.

    Args:
        fleet: all rows.
        burdens: of the last look.
        now: the time.
        veto: why no tenant may be moved now; empty if tenants may.
    """
    members = {row.id: pool for pool in fleet.pools.values() for row in find_members(pool.key, fleet)}
    found = {move.source for move in fleet.moves.values() if not move.is_over} & members.keys()
    if veto:
        return found
    for instance, overload in burdens.overloads.items():
        row = fleet.instances[instance]
        if overload.relieved_at <= now and is_overloaded(fleet.load.get(instance, 0), row.capacity):
            found |= {each.id for each in find_alike(row, fleet)}
    return found | {instance for instance, pool in members.items() if pool.is_shrinking(now)}


def find_veto_of_moves(fleet: Fleet) -> str:
    """Why no tenant is moved now, in words for operators; empty if tenants may be.

    Whatever else rearranges the fleet belongs here. A move from an instance that is down counts until the target has
    the tenant, though the move is not over before the instance is back. It does not count while the evacuation is
    suspended.
    """
    if fleet.is_rebuilt:
        return REBUILT
    fled = sorted(
        move.source
        for move in fleet.moves.values()
        if not (move.is_over or move.step in HANDED_OVER or fleet.is_held_back(move)) and fleet.is_down(move.source)
    )
    if fleet.rollout is not None and not fleet.rollout.is_over:
        return "a rollout is under way"
    return f"tenants leave {fled[0]}, which is down" if fled else ""
