"""A fleet in memory through which a version is rolled: its planner's looks, moves that come to their ends, agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from services.common.messages import FleetOrder, Health, Order, StartRollout
from services.planner.domain.changes import Changes
from services.planner.domain.events import FleetDue, ScalingDue
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin
from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import EnginePool, PoolKey
from services.planner.domain.fleet.remediation.evacuation import evacuate
from services.planner.domain.fleet.remediation.forced_moves import with_forced_moves
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.ring_instances import cell_of, runs
from services.planner.domain.fleet.rollouts.rollout_rows import LAST_STAGE, Figures, Rollout
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move
from services.planner.rows.tenants import TenantName
from tests.unit.planner.fleet.fleet_rows import FleetRows
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE
from tests.unit.planner.given import at

OLD, NEW = "3.1.16", "3.2.11"
WORDS = {OLD: "old", NEW: "new"}
SOUTH = replace(CLUSTER, id="south")
CELLS: Mapping[str, Mapping[str, Any]] = {
    "north": {},
    "south": {"engine_cluster": "south"},
    "acme": {"engine_class": "dedicated", "dedicated_to": "acme"},
}
"""Of a ring in two engine clusters, in one of which a workspace has instances to itself."""
EVERY = timedelta(minutes=1)
"""Between two looks."""
START = StartRollout(NEW, "", (), 300, is_security=False)
PAST = Figures(60, 600, 0, 0, 0, 60_000, 2_000, tenants=300)
WELL = Figures(5, 50, 0, 0, 0, 60_000, 2_000, tenants=25)
BAD = replace(WELL, comparison_errors=50, failing_tenants=25)
OF_ONE_TENANT = replace(WELL, comparison_errors=50, failed_syncs=50, failing_tenants=5)


def instance(name: str, ring: str = "general", **changes: object) -> EngineInstanceRow:
    return replace(INSTANCE, id=name, namespace=name, ring=ring, **changes)  # type: ignore[arg-type]


def told(name: str, version: str, health: str = "Healthy", reason: str = "") -> InstanceHealth:
    return InstanceHealth(name, 0, health, reason, "", version, at(1), at(1), at(1), None)


def closed_by_rollouts(fleet: Fleet, rollouts: Iterable[Rollout]) -> frozenset[str]:
    """Instances that these rollouts, the oldest first, keep tenants from: as ``rollout_queries.IS_CLOSED`` has it."""
    rollouts = tuple(rollouts)
    untried: dict[tuple[str, str, str], bool] = {}
    for each in rollouts:
        reached = each.ring_names.index(each.ring) + 1 if each.ring else 0
        has_left = each.is_over and each.stage < LAST_STAGE
        for number, ring in enumerate(each.ring_names, start=1):
            untried[each.version, each.profile, ring] = each.step != "done" and number > reached - has_left

    def is_out_of_turn(row: EngineInstanceRow) -> bool:
        at_turn = (each for each in rollouts if each.ring == row.ring and not each.is_over)
        return any(runs(row, each, fleet) != each.is_on_new for each in at_turn)

    def is_untried(row: EngineInstanceRow) -> bool:
        return untried.get((fleet.version_of(row), row.profile or "", row.ring), False)

    present = [row for row in fleet.instances.values() if not row.is_retired]
    served = {
        (row.ring, cell_of(row))
        for row in present
        if row.state == "accepting" and not (fleet.is_down(row.id) or is_out_of_turn(row) or is_untried(row))
    }
    return frozenset(
        row.id for row in present if is_out_of_turn(row) or (is_untried(row) and (row.ring, cell_of(row)) in served)
    )


@dataclass
class Rolled:
    """See the module. What agents tell of figures is a function of an instance's id."""

    instances: dict[str, EngineInstanceRow]
    health: dict[str, InstanceHealth]
    tenants: dict[TenantName, TenantHere]
    figures: Callable[[str], Figures] = lambda name: WELL
    rollout: Rollout | None = None
    """The newest."""
    former: list[Rollout] = field(default_factory=list)
    """Those before it."""
    moves: dict[UUID, Move] = field(default_factory=dict)
    ended: list[Move] = field(default_factory=list)
    now: datetime = field(default_factory=lambda: at(1000))
    pools: dict[PoolKey, EnginePool] = field(default_factory=dict)
    clusters: dict[str, EngineClusterRow] = field(default_factory=lambda: {CLUSTER.id: CLUSTER})
    cordoned: dict[str, str] = field(default_factory=dict)
    rules: PlacementRules = field(default_factory=PlacementRules)
    is_rebuilt: bool = False
    stubborn: set[UUID] = field(default_factory=set)
    """Tenants that cannot be prepared anywhere: their moves come back."""

    @classmethod
    def of(cls, rings: Mapping[str, tuple[int, int]], tenants: int = 20) -> Rolled:
        """With so many old and new instances in each ring, by its name; and so many tenants on each old one."""
        rows = [
            (version, instance(f"{ring}-{word}-{number}", ring))
            for ring, counts in rings.items()
            for (version, word), count in zip(WORDS.items(), counts, strict=True)
            for number in range(count)
        ]
        return cls._with(rows, tenants)

    @classmethod
    def of_cells(cls, tenants: int = 20) -> Rolled:
        """With an old and a new instance in each of :data:`CELLS`, such as ``south-old``; all in one ring."""
        rows = [
            (version, instance(f"{cell}-{word}", **changes))
            for cell, changes in CELLS.items()
            for version, word in WORDS.items()
        ]
        found = cls._with(rows, tenants)
        found.clusters[SOUTH.id] = SOUTH
        return found

    @classmethod
    def _with(cls, rows: Iterable[tuple[str, EngineInstanceRow]], tenants: int) -> Rolled:
        found = cls({}, {}, {})
        for version, row in rows:
            found.join(row, version)
            for _ in range(tenants if version == OLD else 0):
                known = len(found.tenants) + 1
                found.tenants[row.dedicated_to or "local", f"team-{known}"] = TenantHere(
                    UUID(int=known), known % 3, row.id, 2, load=3
                )
        return found

    @property
    def fleet(self) -> Fleet:
        """As the planner would read it."""
        on = Counter(each.engine_instance_id for each in self.tenants.values())
        moving = Counter(place for move in self.moves.values() for place in (move.source, move.target))
        deployments = Counter[str]()
        for each in self.tenants.values():
            deployments[each.engine_instance_id] += each.deployments
            move = self.moves.get(each.id)
            if move is not None and move.source == each.engine_instance_id:  # it counts where it goes, too
                deployments[move.target] += each.deployments
        held = {
            name: Holding(on[name] + moving[name], deployments[name], objects=bool(on[name] + moving[name]))
            for name in self.instances
        }
        back = [each for each in self.ended if each.step == "cancelled" and not each.is_cancelled]
        returned = Counter((each.tenant_id, each.target) for each in back)
        is_past = self.rollout is not None and self.rollout.step == "provisioning"
        figures = {name: PAST if is_past else self.figures(name) for name in self.instances}
        fleet = loaded_fleet(
            self.clusters, self.instances, held, self.tenants, dict(self.moves),
            health=self.health, cordoned=self.cordoned, rules=self.rules, pools=self.pools, rollout=self.rollout,
            figures=figures, knows_version=lambda _, version: version in (OLD, NEW), is_rebuilt=self.is_rebuilt,
            returned=returned, load={name: load_of_deployments(count) for name, count in deployments.items()},
        )  # fmt: skip
        rollouts = [*self.former, *([self.rollout] if self.rollout is not None else [])]
        return replace(fleet, closed=closed_by_rollouts(fleet, rollouts))

    def look(self, *orders: Order) -> Changes:
        """Once, at the present time; what it changes is written."""
        given = [FleetOrder(UUID(int=self._number() + n), "ada", self.now, each) for n, each in enumerate(orders)]
        (changes,) = FleetRows(self).plan(FleetDue(), *given)
        self._write_changes(changes)
        for rollout in changes.rollouts:
            if self.rollout is not None and self.rollout.id != rollout.id:
                self.former.append(self.rollout)
            self.rollout = rollout
        self.pools |= {row.key: row for row in changes.engine_pools}
        return changes

    def scale(self) -> None:
        """One look at the pools."""
        (changes,) = FleetRows(self).plan(ScalingDue())
        self._write_changes(changes)
        self.pools |= {row.key: row for row in changes.engine_pools}

    def install(self) -> None:
        """What is to be installed is there, and its agent tells that."""
        for name, row in self.instances.items():
            if row.state == "provisioning":
                self.health[name] = told(name, row.wanted_version or "")

    def evacuate(self) -> None:
        """As remediation does: tenants leave instances that are down."""
        for name, known in self.health.items():
            if known.is_down and not self.instances[name].is_retired:
                _, after = evacuate(name, with_forced_moves(name, self.fleet, self.now), self.now)
                for move in after.moves.values():
                    self._write(move)

    def step_moves(self) -> None:
        """Each move that has begun by one step, if those can do their part that it waits for."""
        for move in tuple(self.moves.values()):
            is_lost = self.fleet.is_out_of_reach(move.source)
            is_stubborn = move.step == "preparing" and move.tenant_id in self.stubborn
            if is_stubborn or (move.step in ("reserved", "preparing") and move.is_cancelled):
                self._write(replace(move, step="cancelled"))
            elif move.step == "withdrawing":
                self._write(move if is_lost else replace(move, step="done"))
            elif self.fleet.is_out_of_reach(move.target) or (is_lost and move.path == "whole"):
                continue
            elif move.step == "reserved":
                self._write(replace(move, step="preparing"))
            elif move.step == "preparing":
                self._write(replace(move, step="adopting", path="fenced" if is_lost else move.path))
                name = next(
                    known
                    for known, each in self.tenants.items()
                    if (each.id, each.engine_instance_id) == (move.tenant_id, move.source)
                )
                self.tenants[name] = replace(self.tenants[name], engine_instance_id=move.target)
            elif move.step == "adopting":
                self._write(replace(move, step="withdrawing" if is_lost else "done"))

    def live(self, *orders: Order) -> None:
        """One look, and what happens until the next."""
        self.look(*orders)
        self.step_moves()
        self.now += EVERY

    def until_over(self, most: int = 2000) -> Rollout:
        """The rollout as it ended; fails if it does not."""
        for _ in range(most):
            self.live()
            if self.rollout is not None and self.rollout.is_over:
                return self.rollout
        raise AssertionError(self.rollout)

    def until(self, step: str, stage: int = 0, most: int = 500) -> Rollout:
        """The rollout at this step, and stage."""
        for _ in range(most):
            if self.rollout is not None and (self.rollout.step, stage or self.rollout.stage) == (
                step,
                self.rollout.stage,
            ):
                return self.rollout
            self.live()
        raise AssertionError(self.rollout)

    def join(self, row: EngineInstanceRow, version: str) -> None:
        """Its agent tells that it is well."""
        self.instances[row.id], self.health[row.id] = row, told(row.id, version)

    def pin(self, tenant: TenantName) -> None:
        """To where it is."""
        pin = TenantPin(*tenant, self.tenants[tenant].engine_instance_id, self.now)
        self.rules = self.rules.with_pin(pin)

    def places(self) -> Counter[str]:
        """How many tenants are on each instance."""
        return Counter(each.engine_instance_id for each in self.tenants.values())

    def states(self) -> dict[str, str]:
        """Of each instance."""
        return {name: row.state for name, row in sorted(self.instances.items())}

    def hear(
        self, name: str, health: Health, reason: str = "ControllerNotReady", *, since: datetime | None = None
    ) -> None:
        """From the agent of an instance. It has been so for long, or ``since`` a time."""
        before = self.health[name]
        self.health[name] = replace(before, health=health.value, reason=reason, since=since or before.since)

    def _write_changes(self, changes: Changes) -> None:
        self.instances |= {row.id: row for row in changes.engine_instances}
        for move in changes.moves_ordered:
            self._write(move)

    def _write(self, move: Move) -> None:
        if move.is_over:
            self.moves.pop(move.tenant_id, None)
            self.ended.append(move)
        else:
            self.moves[move.tenant_id] = move

    def _number(self) -> int:
        return int(self.now.timestamp()) * 1000
