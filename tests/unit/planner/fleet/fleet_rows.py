"""The database of a fleet in memory: a look at it has what it loads, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from services.common.messages import FleetOrder, Order
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event, FleetDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import UNLOADED_RULES, LoadedTenants, UnloadedRows
from services.planner.domain.fleet.pools.pool_rows import Burdens, Overload
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.rows import Move
from services.planner.domain.policy import Policy
from services.planner.pipeline.fleet_planning import plan_fleet
from services.planner.rows.tenants import TenantName, tenant_of_part

if TYPE_CHECKING:
    from tests.unit.planner.fleet.rolled import Rolled


LOCAL = Policy(local_workspaces={"local": frozenset({"default", "north"})})
"""The tenants' workspace has its namespaces in each cluster of the fleet."""


@dataclass
class FleetRows:
    """The database of a fleet, and what was asked of it."""

    rolled: Rolled
    remediations: dict[str, Remediation] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    """Instances of which was asked what is on them."""
    tenants_of: set[str] = field(default_factory=set)
    """Instances whose tenants were read."""
    overloads: dict[str, Overload] = field(default_factory=dict)
    load: dict[str, int] = field(default_factory=dict)
    steps_meanwhile: list[Move] = field(default_factory=list)
    """What planners of tenants write between that the fleet is read and that a move is locked."""
    locked: set[UUID] = field(default_factory=set)
    """Moves that nobody else takes a step of any more."""
    are_retired_loaded: bool = False
    _whole: Fleet = field(init=False)
    """All that there is."""

    @property
    def begun(self) -> Move:
        """The first of the moves that have begun, and are not over."""
        return next(move for move in self.rolled.moves.values() if move.step != "ordered" and not move.is_over)

    @property
    def measured_load(self) -> Mapping[str, int]:
        return {**self.rolled.fleet.load, **self.load}

    def plan(self, *messages: FleetDue | RemediesDue | ScalingDue | FleetOrder) -> list[Changes]:
        self.counted, self.tenants_of, self.locked, self.are_retired_loaded = set(), set(), set(), False
        return plan_fleet([Event(each, 0, "") for each in messages], self, LOCAL, self.rolled.now)

    def order(self, order: Order) -> Changes:
        (changes,) = self.plan(FleetOrder(UUID(int=7), "ada", self.rolled.now, order))
        return changes

    def load_fleet_rows(
        self, orders: Collection[UUID], closing: Collection[str], tenants: Collection[TenantName]
    ) -> Fleet:
        self._whole = self.rolled.fleet
        instances = {row.id: row for row in self._whole.instances.values() if not row.is_retired}
        named = frozenset(map(tenant_of_part, tenants))
        found = {name: each for name, each in self._whole.tenants.items() if tenant_of_part(name) in named}
        return replace(
            self._whole,
            instances=instances,
            tenants=LoadedTenants(found, names=named),
            has_retired=False,
            holdings={},
            uncounted=frozenset(instances),
            rules=UNLOADED_RULES,
            load=UnloadedRows("loads"),
            returned=UnloadedRows("moves that went back"),
            evacuations=UnloadedRows("evacuations"),
        )

    def lock_moves(self, moves: Collection[Move]) -> bool:
        for step in self.steps_meanwhile:
            self.rolled.moves[step.tenant_id] = step
        self.steps_meanwhile = []
        self.locked |= {move.id for move in moves}
        return all(self.rolled.moves.get(move.tenant_id) == move for move in moves)

    def load_retired_and_assignments(self, fleet: Fleet) -> Fleet:
        self.are_retired_loaded = True
        return replace(
            fleet,
            instances=self._whole.instances,
            has_retired=True,
            uncounted=fleet.uncounted | (self._whole.instances.keys() - fleet.instances.keys()),
            rules=self._whole.rules,
        )

    def load_holdings(self, instances: Collection[str]) -> Mapping[str, Holding]:
        self.counted |= set(instances)
        return {each: self._whole.holding(each) for each in instances}

    def load_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        self.tenants_of |= set(instances)
        return LoadedTenants(self._whole.tenants.on(instances), instances=frozenset(instances))

    def load_measured_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        return self.load_tenants_on(instances)

    def load_all_tenants(self) -> LoadedTenants:
        self.tenants_of |= self._whole.instances.keys()
        return LoadedTenants.of_all(self._whole.tenants)

    def load_burdens(self, now: datetime) -> Burdens:
        return Burdens(self.overloads, frozenset())

    def find_leaving(self) -> Collection[str]:
        return ()

    def count_returned_moves(self, since: datetime) -> Mapping[tuple[UUID, str], int]:
        return self._whole.returned

    def load_evacuations(self, since: datetime, now: datetime) -> Mapping[TenantName, frozenset[str]]:
        return {}

    def load_remediations(self) -> Mapping[str, Remediation]:
        return self.remediations
