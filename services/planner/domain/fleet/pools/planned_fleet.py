"""The fleet while a look at pools and loads gives orders: as these leave it. Pure.

The orders are such as operators give (``orders.py``), and each has an audit record. Rules about pools (``resizing.py``,
``shrinking.py``) and about overloaded instances (``relief.py``) give their orders here, and so see what was ordered
before: an instance that was added counts, and the load of a tenant that was moved is its target's. Loads are those that
placement uses (``placement/measured_load.py``). Capacities are each instance's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from services.common.messages import FleetOrder, MoveTenant, Order
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.orders import decide_own_order
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, PoolKey
from services.planner.domain.fleet.pools.pool_size import target_load
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.rows.tenants import TenantName

ACTOR = "planner"


class PlannedFleet:
    """The fleet as :attr:`orders` leave it. An order that the rules refuse has no effect."""

    def __init__(self, fleet: Fleet, burdens: Burdens, now: datetime) -> None:
        self.fleet, self.burdens, self.now = fleet, burdens, now
        self.orders: list[FleetOrder] = []
        self.refusal = ""
        """The rule against the newest order; empty if it was not refused."""
        self._load = Counter(fleet.load)
        for tenant in fleet.tenants.rows.values():
            if fleet.destination_of(tenant) != tenant.engine_instance_id:  # its target is measured with it
                self._load[tenant.engine_instance_id] -= tenant.load

    def give_order(self, order: Order) -> bool:
        """Give an order. If the rules accept it, :attr:`fleet` is as the order leaves it. Returns whether they do."""
        given, decision = decide_own_order(order, ACTOR, self.fleet, self.now)
        self.refusal = decision.message if decision.outcome == "refused" else ""
        if decision.outcome != "accepted":
            return False
        self.orders.append(given)
        self.fleet = decision.fleet
        return True

    def is_counted(self, row: EngineInstanceRow, pool: EnginePool) -> bool:
        """Whether an instance counts for the pool's size: it stays, is or will be ready, and may have tenants then.

        A closed instance counts if it is of the release that the pool adds: the next one would be closed, too, so the
        pool would never have enough.
        """
        is_of_no_use = row.id in self.fleet.closed and self.fleet.desired_release(row) != pool.release
        return not (row.is_leaving or row.state == "failed" or is_of_no_use or self.fleet.is_given_up(row.id))

    def is_serving(self, row: EngineInstanceRow) -> bool:
        """Whether an instance works, and tenants may come to it."""
        return self.fleet.takes_tenants(row) and row.id not in self.fleet.closed

    def load_of(self, instance: str) -> int:
        """The load of an instance once all moves are over."""
        return self._load[instance]

    def tenants_on(self, instance: str) -> list[tuple[TenantName, TenantHere]]:
        """Tenants on an instance that are not being moved, the largest first."""
        here = self.fleet.tenants.on([instance]).items()
        found = (each for each in here if not is_moving(each[1], self.fleet))
        return sorted(found, key=lambda each: (-each[1].load, each[1].id))

    def move_tenant(self, name: TenantName, tenant: TenantHere, targets: Iterable[EngineInstanceRow]) -> bool:
        """Order a tenant to the emptiest instance that may have it, and stays within its target load.

        The tenant goes to another engine cluster only if no instance of its own takes it. Returns whether one takes it.
        """
        source = self.fleet.instances[tenant.engine_instance_id]
        fitting = [
            row
            for row in targets
            if row.id != source.id
            and row.state == "accepting"
            and self.is_serving(row)
            and self.load_of(row.id) + tenant.load <= target_load(row.capacity)
        ]
        fitting.sort(
            key=lambda row: (row.engine_cluster != source.engine_cluster, self.load_of(row.id) / row.capacity, row.id)
        )
        taken = next((row for row in fitting if self.give_order(MoveTenant(*name, row.id))), None)
        if taken is None:
            return False
        self._load[source.id] -= tenant.load
        self._load[taken.id] += tenant.load
        return True


def find_members(key: PoolKey, fleet: Fleet) -> list[EngineInstanceRow]:
    """Instances of a pool that are not retired, in the order of their ids."""
    found = (
        row
        for row in fleet.instances.values()
        if (row.engine_cluster, row.ring) == key and row.engine_class == "shared" and not row.is_retired
    )
    return sorted(found, key=lambda row: row.id)
