"""A fleet that lives by the planner's own rules while its load changes: no process, no clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from services.planner.database.pool_queries import STAYS
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import LoadedTenants, TenantHere, UnloadedRows
from services.planner.domain.fleet.orders import decide_orders
from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience
from services.planner.domain.fleet.pools.scaling import find_veto_of_moves, instances_rearranged, scale
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.policy import Policy
from services.planner.rows.tenants import TenantName
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE
from tests.unit.planner.given import at

POOL = EnginePool("north", "general", 1, 20, 1, 2500, "3.2.11", "", at(0))


def pool_fleet(instances: int, pool: EnginePool = POOL, **changes: object) -> Fleet:
    """With so many instances of a pool, and nothing on them."""
    rows = [
        replace(
            INSTANCE,
            id=f"north-general-{number}",
            namespace=f"argocd-{number}",
            capacity=pool.capacity,
            wanted_version=pool.version,
            **changes,
        )
        for number in range(1, instances + 1)
    ]
    fleet = loaded_fleet({CLUSTER.id: CLUSTER}, {row.id: row for row in rows}, {})
    return replace(fleet, pools={pool.key: pool})


def with_capacities(fleet: Fleet, capacities: Sequence[int]) -> Fleet:
    """With instances of these capacities, in the order of their ids."""
    for known, capacity in zip(sorted(fleet.instances), capacities, strict=True):
        fleet = fleet.with_instance(replace(fleet.instances[known], capacity=capacity))
    return fleet


@dataclass
class SimulatedFleet:
    """Steps of time; installations and moves take one each."""

    fleet: Fleet
    patience: Patience = field(default_factory=Patience)
    now: datetime = field(default_factory=lambda: at(0))
    overloads: dict[str, Overload] = field(default_factory=dict)
    stays: timedelta = STAYS
    """How long a tenant is not moved again, but for what else the rules are."""
    moved: defaultdict[UUID, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    """When each tenant was moved."""

    def place_evenly(self, sizes: Mapping[TenantName, int]) -> None:
        """New tenants, one after the other, each to the instance that carries the least of its capacity."""
        rows, carried, tenants = self.fleet.instances, Counter[str](), {}
        for number, (name, size) in enumerate(sizes.items()):
            emptiest = min(sorted(rows), key=lambda each: carried[each] / rows[each].capacity)
            tenants[name] = TenantHere(UUID(int=number + 1), 0, emptiest, size)
            carried[emptiest] += size
        self.fleet = with_tenants(self.fleet, tenants)

    def live(self, sizes: Mapping[TenantName, int], step: timedelta) -> None:
        """Until the next step: what was ordered is done, tenants have so many Applications, and the planner looks."""
        self.now += step
        self._finish_moves()
        self._resize(sizes)
        self._decide()

    @property
    def serving(self) -> list[str]:
        """Instances that are not retired."""
        return [row.id for row in self.fleet.instances.values() if not row.is_retired]

    @property
    def moves(self) -> dict[UUID, int]:
        """How often each tenant was moved."""
        return {known: len(times) for known, times in self.moved.items()}

    def moves_since(self, then: datetime) -> int:
        """Of all tenants together."""
        return sum(moved >= then for times in self.moved.values() for moved in times)

    def returns_within(self, period: timedelta) -> int:
        """How often a tenant was moved again so soon."""
        return sum(after - before < period for times in self.moved.values() for before, after in pairwise(times))

    def fullness(self) -> dict[str, float]:
        """Of those that tenants are on, as a share of the capacity."""
        rows = self.fleet.instances
        return {known: held.deployments / rows[known].capacity for known, held in self.fleet.holdings.items()}

    def _finish_moves(self) -> None:
        tenants = dict(self.fleet.tenants)
        for name, tenant in tenants.items():
            move = self.fleet.moves.get(tenant.id)
            if move is not None:
                tenants[name] = replace(tenant, engine_instance_id=move.target)
                self.moved[tenant.id].append(self.now)
        self.fleet = replace(with_tenants(self.fleet, tenants), moves={})

    def _resize(self, sizes: Mapping[TenantName, int]) -> None:
        tenants = {
            name: replace(each, deployments=sizes[name], load=load_of_deployments(sizes[name]))
            for name, each in self.fleet.tenants.items()
        }
        count, size = Counter[str](), Counter[str]()
        for each in tenants.values():
            count[each.engine_instance_id] += 1
            size[each.engine_instance_id] += each.deployments
        holdings = {known: Holding(count[known], size[known], objects=True) for known in count}
        health = {
            row.id: InstanceHealth(row.id, 0, "Healthy", "", "", "", self.now, self.now, self.now, None)
            for row in self.fleet.instances.values()
            if row.state == "provisioning"
        }
        load = {known: load_of_deployments(carried) for known, carried in size.items()}
        self.fleet = replace(with_tenants(self.fleet, tenants), holdings=holdings, health=health, load=load)

    def _seen(self, burdens: Burdens) -> Fleet:
        """As the planner reads it: what is on instances among which nobody may move is not."""
        fleet = self.fleet
        counted = instances_rearranged(fleet, burdens, self.now, find_veto_of_moves(fleet)) | {
            pool.leaving for pool in fleet.pools.values() if pool.leaving is not None
        }
        return replace(
            fleet,
            tenants=LoadedTenants(fleet.tenants.on(counted), instances=frozenset(counted)),
            returned=UnloadedRows("moves that went back"),
            evacuations=UnloadedRows("evacuations"),
            uncounted=frozenset(fleet.instances.keys() - counted),
        )

    def _decide(self) -> None:
        late = frozenset(known for known, times in self.moved.items() if times[-1] > self.now - self.stays)
        burdens = Burdens(self.overloads, late)
        scaling = scale(self._seen(burdens), burdens, self.now, self.patience)
        changes = decide_orders(scaling.orders, self.fleet, self.now, Policy(moves_at_once=10_000))
        assert all(record.outcome == "accepted" for record in changes.fleet_orders)
        for row in changes.engine_instances:
            self.fleet = self.fleet.with_instance(row)
        for move in changes.moves_ordered:
            self.fleet = self.fleet.with_move(move)
        for pool in scaling.pools:
            self.fleet = self.fleet.with_pool(pool)
        for known in scaling.overloads_gone:
            del self.overloads[known]
        self.overloads |= {each.engine_instance_id: each for each in scaling.overloads}
