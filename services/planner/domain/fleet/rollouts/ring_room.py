"""Whether a ring's new instances have room for all that its old ones carry, and which are ordered if not. Pure.

The new instances need room for all Applications of the old ones. Without a pool that is enough: how full instances
become is up to the operators who add them. With a pool there have to be as many as the pool would have for the load,
with its spare ones and within its limits, so that no instance is overloaded when all tenants have come.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import uuid5

from services.common.messages import FleetOrder
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import state_in_words
from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import EnginePool, order_for
from services.planner.domain.fleet.pools.pool_size import lacking_instances
from services.planner.domain.fleet.rollouts.ring_instances import Cell, Ring, cell_of, ring_of, runs
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, REVERTIBLE, Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.rows.fleet import DEFAULT_ENGINE

ACTOR = "rollout"
"""The actor of the orders that add instances to a ring."""


class _Members(NamedTuple):
    """The instances of a cell, and what they carry.

    Tenants that are on their way count where they go, and not where they are yet.
    """

    cell: Cell
    old: list[EngineInstanceRow]
    new: list[EngineInstanceRow]
    failed: list[EngineInstanceRow]
    """New ones that a provisioner has installed, and that were not ready in time: the next would fail, too."""
    awaited: list[EngineInstanceRow]
    """New ones that are not ready yet, or are down, and others that are not ready of which nobody knows the version."""
    carried: int
    """Applications of the old ones."""
    room: int
    """For Applications, on the new ones."""

    @property
    def have_room(self) -> bool:
        """Whether there are new ones, and they have room for all Applications of the old ones."""
        return bool(self.new) and self.room >= self.carried


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a ring's new instances lack in one of its cells."""

    cell: Cell
    members: _Members
    pool: EnginePool | None
    """What adds instances there; None: operators do."""
    missing: int
    """Instances that the pool is to add beside those that are awaited, or have failed."""


def shortages(ring: Ring, rollout: Rollout, fleet: Fleet) -> list[Shortage]:
    """Cells whose new instances are too few; or none.

    Args:
        ring: the instances of the rollout's.
        rollout: which.
        fleet: all rows, with the tenants of the ring, what is on its instances, and their load.
    """
    leaving = _leaving(ring, fleet)
    found = (_shortage(_members(cell, ring, rollout, fleet, leaving), leaving, rollout, fleet) for cell in _cells(ring))
    return [each for each in found if each is not None]


def shortages_by_hand(ring: Ring, rollout: Rollout, fleet: Fleet) -> list[Shortage]:
    """Cells whose new instances have too little room, and that no pool adds any to.

    Tenants that are on their way count on both of their instances: of none is loaded where it is.

    Args:
        ring: the instances of a ring.
        rollout: which.
        fleet: all rows, with what is on the ring's instances.
    """
    cells = [cell for cell in _cells(ring) if _pool_of(cell, rollout.ring, fleet) is None]
    members = (_members(cell, ring, rollout, fleet, Counter()) for cell in cells)
    return [Shortage(each.cell, each, None, 0) for each in members if not each.have_room]


def _cells(ring: Ring) -> list[Cell]:
    """Those with old instances."""
    return sorted({cell_of(row) for row in ring.sources})


def _leaving(ring: Ring, fleet: Fleet) -> Counter[str]:
    """Applications of tenants that are on their way, by the instance of the ring that they are on yet."""
    leaving = Counter[str]()
    for each in fleet.tenants.on([row.id for row in (*ring.sources, *ring.targets)]).values():
        if fleet.destination_of(each) != each.engine_instance_id:
            leaving[each.engine_instance_id] += each.deployments
    return leaving


def find_lacking(ring: Ring, rollout: Rollout, fleet: Fleet) -> str:
    """What has to be there before tenants leave the ring's old instances, in words; empty: all is."""
    if ring.unknown:
        return f"no agent has told of engine instance {ring.unknown[0].id} yet"
    return next((lacking_room(each, rollout, fleet) for each in shortages(ring, rollout, fleet)), "")


def _shortage(members: _Members, leaving: Counter[str], rollout: Rollout, fleet: Fleet) -> Shortage | None:
    """What the new instances of a cell lack; None if they are enough for all that its old ones carry.

    One that has failed is not waited for if there is room without it.
    """
    pool = _pool_of(members.cell, rollout.ring, fleet)
    if pool is None:
        return None if members.have_room else Shortage(members.cell, members, None, 0)
    load = _load_of(members, leaving, fleet)
    is_small = _lacking(pool, load, [*members.new, *members.failed]) > 0
    if members.have_room and not is_small:
        return None
    to_come = [*members.failed, *members.awaited]
    unplaced = members.carried - members.room - sum(row.capacity for row in to_come)
    there = [*members.new, *to_come]
    missing = max(_lacking(pool, load, there), math.ceil(unplaced / pool.capacity), int(not there))
    return Shortage(members.cell, members, pool, missing)


def _load_of(members: _Members, leaving: Counter[str], fleet: Fleet) -> int:
    """What the old and the new ones carry."""
    rows = (*members.old, *members.new)
    return sum(fleet.load.get(row.id, 0) - load_of_deployments(leaving[row.id]) for row in rows)


def _members(cell: Cell, ring: Ring, rollout: Rollout, fleet: Fleet, leaving: Counter[str]) -> _Members:
    """``leaving``: Applications of tenants that are on their way, by the instance that they are on yet."""
    there = [row for row in fleet.instances.values() if (cell_of(row), row.ring) == (cell, rollout.ring)]
    of_release = [row for row in there if runs(row, rollout, fleet)]
    unknown = [row for row in there if row.state == "provisioning" and not fleet.version_of(row)]
    old = [row for row in ring.sources if cell_of(row) == cell]
    new = [row for row in ring.targets if cell_of(row) == cell]

    def on(row: EngineInstanceRow) -> int:
        return fleet.holding(row.id).deployments - leaving[row.id]

    return _Members(
        cell=cell,
        old=old,
        new=new,
        failed=[row for row in of_release if row.state == "failed" and row.wanted_version],
        awaited=[
            *(row for row in of_release if row.state == "provisioning" or (row.is_taking and fleet.is_down(row.id))),
            *unknown,
        ],
        carried=sum(on(row) for row in old),
        room=sum(max(0, row.capacity - on(row)) for row in new),
    )


def _pool_of(cell: Cell, ring: str, fleet: Fleet) -> EnginePool | None:
    cluster, engine, engine_class, _ = cell
    return fleet.pools.get((cluster, ring)) if (engine, engine_class) == (DEFAULT_ENGINE, "shared") else None


def _lacking(pool: EnginePool, load: int, there: list[EngineInstanceRow]) -> int:
    """How many more instances than ``there`` the pool would have for a load."""
    lacking = lacking_instances(load, pool, len(there), sum(row.capacity for row in there))
    return max(0, min(lacking, pool.maximum - len(there)))


def lacking_room(lacking: Shortage, rollout: Rollout, fleet: Fleet) -> str:
    """A shortage in words, with what becomes of it: an instance is not ready yet, has failed, or has to be added."""
    (cluster, _, engine_class, owner), members = lacking.cell, lacking.members
    for_whom = f" for workspace {owner}" if owner else ""
    wanted = f"{engine_class} instances of {rollout.release.in_words} in cluster {cluster}{for_whom}"
    if members.room and members.room >= members.carried:
        return f"ring {rollout.ring} needs more {wanted} for its load: {_shortage_advice(lacking, fleet)}"
    return (
        f"ring {rollout.ring} needs {wanted} with room for {members.carried} Applications, and has room for "
        f"{members.room}: {_shortage_advice(lacking, fleet)}"
    )


def _shortage_advice(lacking: Shortage, fleet: Fleet) -> str:
    members = lacking.members
    if members.failed:
        return f"engine instance {members.failed[0].id} has failed, {members.failed[0].state_message}"
    if members.awaited:
        row = members.awaited[0]
        return state_in_words(row) if row.is_unready else fleet.down_in_words(row.id)
    return "'gitopsctl engines add' adds one" if lacking.pool is None else "its pool is to add some"


def missing_instances(fleet: Fleet, now: datetime) -> list[FleetOrder]:
    """Orders of instances that a provisioner installs, where the ring that is looked at lacks some and has a pool.

    Beyond the limits of the pool if there is no room otherwise, as the old ones go. None for one that is down: the ring
    waits for that, or goes back. None of a rollout that is to end.
    """
    rollout = fleet.rollout
    if rollout is None or rollout.outcome or not rollout.is_due(now):
        return []
    if rollout.step not in {"provisioning", *REVERTIBLE, *FINAL}:
        return []
    ring = ring_of(rollout, rollout.ring, fleet)
    lacking = () if ring.unknown else shortages(ring, rollout, fleet)
    return [order for each in lacking for order in _orders_for_pool(each, rollout, fleet, now)]


def _orders_for_pool(lacking: Shortage, rollout: Rollout, fleet: Fleet, now: datetime) -> list[FleetOrder]:
    if lacking.pool is None:
        return []
    pool = lacking.pool.with_release(rollout.release)
    names = fleet.next_names(*pool.key, lacking.missing)
    return [FleetOrder(uuid5(rollout.id, name), ACTOR, now, order_for(pool, name)) for name in names]
