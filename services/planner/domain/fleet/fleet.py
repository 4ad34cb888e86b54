"""The fleet as one value: what operators' orders, and all that is due, are decided on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.planner.domain.fleet.loaded_parts import (
    UNLOADED_RULES,
    UNLOADED_TENANTS,
    LoadedTenants,
    TenantHere,
    UnloadedRows,
)
from services.planner.domain.fleet.moves.pace import Pace
from services.planner.domain.fleet.placement.assignments import PlacementRules
from services.planner.domain.fleet.pools.pool_rows import EnginePool, PoolKey, instance_in, next_name
from services.planner.domain.fleet.reports.report_rows import Installation, InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import Figures, Rollout
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move, Release
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import TenantName


@dataclass(frozen=True, slots=True)
class Holding:
    """What is on an instance."""

    tenants: int = 0
    """Those included that a rebuild will find there."""
    deployments: int = 0
    """GitOpsDeployments of which rows desire an object."""
    objects: bool = False
    """Whether rows desire or withdraw any object."""


NOTHING_HELD = Holding()


@dataclass(frozen=True, slots=True)
class Fleet:
    """What orders are decided on, and all that is due.

    Rows of the fleet itself are complete. Of other parts a look has what it has loaded, and nobody reads more: they
    raise LookupError (``loaded_parts.py``).
    """

    clusters: Mapping[str, EngineClusterRow]
    instances: Mapping[str, EngineInstanceRow]
    """Those that are not retired, and retired ones if :attr:`has_retired`, or if they are targets of a move."""
    holdings: Mapping[str, Holding]
    """By instance; none of one that is empty, or :attr:`uncounted`."""
    engines: frozenset[str]
    """Those that this build knows."""
    tenants: LoadedTenants = UNLOADED_TENANTS
    """Those that orders name, or in whose namespaces they add instances, those on some instances, or all. Not to be
    read unless they were loaded."""
    has_retired: bool = False
    """Whether :attr:`instances` has all that are retired."""
    moves: Mapping[UUID, Move] = field(default_factory=dict)
    """Those that are not over, by their tenants' ids; the oldest order first."""
    gone: frozenset[UUID] = frozenset()
    """Tenants that moves are of, and that there are no more."""
    decided: frozenset[UUID] = frozenset()
    """Orders that were decided before: nothing becomes of them when they come again."""
    health: Mapping[str, InstanceHealth] = field(default_factory=dict)
    """By instance; none of one that no agent has reported yet."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Instances that remediation keeps new tenants from, with why."""
    suspended: frozenset[str] = frozenset()
    """Instances that remediation leaves alone, as too many are ill at once: their evacuations do not go on."""
    rules: PlacementRules = UNLOADED_RULES
    """What workspaces and tenants are assigned to. Not to be read unless it was loaded."""
    load: Mapping[str, int] = UnloadedRows("loads")
    """What instances carry, by their ids, as measured last and by what the planner has added since
    (``placement/measured_load.py`` has the unit). Not to be read unless it was loaded: for pools, relief, and the size
    of a ring that is rolled out."""
    installations: Mapping[str, Installation] = field(default_factory=dict)
    """By instance; none of one that no provisioner has reported."""
    pools: Mapping[PoolKey, EnginePool] = field(default_factory=dict)
    """Those that grow and shrink by themselves."""
    rollout: Rollout | None = None
    """The one that is under way, or was until now."""
    closed: frozenset[str] = frozenset()
    """Instances that a rollout, under way or given up, keeps tenants from: no gate has let their release into their
    ring, or it is on its way out of it. The rollout brings tenants to its own all the same, and so does an operator who
    moves one."""
    figures: Mapping[str, Figures] = field(default_factory=dict)
    """By instance, of the time that the rollout's step asks for."""
    knows_version: Callable[[str, str], bool] = lambda engine, version: True
    """Whether this build works with a version of an engine."""
    is_tested: Callable[[str, str], bool] = lambda engine, version: True
    """Whether it was tested with a version of an engine."""
    local_workspaces: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Engine clusters by the workspaces whose namespaces are in them. Empty if no planner has set it: ``gitopsctl``
    tries an order without the planners' settings."""
    is_rebuilt: bool = False
    """A rebuild is under way: of what is on instances there are only the rows that it has come to."""
    uncounted: frozenset[str] = frozenset()
    """Instances of which nobody has read what is on them: nothing is decided that depends on it."""
    returned: Mapping[tuple[UUID, str], int] = UnloadedRows("moves that went back")
    """By tenant and target, how many moves went back of late because a step took too long. Not to be read unless they
    were loaded."""
    evacuations: Mapping[TenantName, frozenset[str]] = UnloadedRows("evacuations")
    """By tenant, instances that it was evacuated from of late for a reason that a tenant can cause. Not to be read
    unless they were loaded."""
    pace: Pace | None = None
    """Of moves, while they give way to changes that wait."""

    def holding(self, instance: str) -> Holding:
        """What is on it. Raises LookupError if that was not read."""
        if instance in self.uncounted:
            raise LookupError(f"what is on engine instance {instance} was not read")
        return self.holdings.get(instance, NOTHING_HELD)

    def find_instance(self, instance: str) -> EngineInstanceRow | None:
        """The instance of this id, or the retired one that had it; None if no instance ever had.

        Raises LookupError if retired ones were not loaded.
        """
        self._require_retired()
        return self.instances.get(instance)

    def _require_retired(self) -> None:
        if not self.has_retired:
            raise LookupError("retired engine instances were not loaded")

    def with_holdings(self, counted: Mapping[str, Holding]) -> Fleet:
        """With what is on some of the instances."""
        return replace(self, holdings={**self.holdings, **counted}, uncounted=self.uncounted - counted.keys())

    def is_down(self, instance: str) -> bool:
        """Whether nothing new is deployed there, as far as anybody knows."""
        health = self.health.get(instance)
        return health is not None and health.is_down

    def is_ill(self, instance: str) -> bool:
        """Whether it is not well, as far as anybody knows."""
        health = self.health.get(instance)
        return health is not None and health.is_ill

    def is_well(self, instance: str) -> bool:
        """Whether it is not ill, and remediation keeps no tenant from it."""
        return not self.is_ill(instance) and instance not in self.cordoned

    def takes_tenants(self, row: EngineInstanceRow) -> bool:
        """Whether tenants may come to it, as far as there is room, and its release is no reason against it.

        It works, and remediation does not keep them from it.
        """
        return row.is_taking and not self.is_down(row.id) and row.id not in self.cordoned

    def is_held_back(self, move: Move) -> bool:
        """Whether a move is of a suspended evacuation: it does not begin until fewer instances are ill."""
        return move.step == "ordered" and move.path != "whole" and move.source in self.suspended

    def down_in_words(self, instance: str) -> str:
        """Why an instance is down, for operators."""
        health = self.health[instance]
        return f"engine instance {instance} is down: {health.message or health.reason}"

    def ill_in_words(self, instance: str) -> str:
        """Why an instance is not well, for operators."""
        if not self.is_ill(instance):
            return f"engine instance {instance} is cordoned: {self.cordoned[instance]}"
        if self.is_down(instance):
            return self.down_in_words(instance)
        health = self.health[instance]
        return f"engine instance {instance} is {health.health}: {health.message or health.reason}"

    def is_out_of_reach(self, instance: str) -> bool:
        """Whether nobody can do anything there, as far as anybody knows."""
        health = self.health.get(instance)
        return health is not None and health.is_out_of_reach

    def is_given_up(self, instance: str) -> bool:
        """Whether remediation gives it up, though its cluster can be reached: another takes its place there."""
        return instance in self.cordoned and self.is_down(instance) and not self.is_out_of_reach(instance)

    def candidate(self, row: EngineInstanceRow) -> PlacementCandidate:
        """An instance as placement sees it, with its health; one that is cordoned or closed accepts no tenants."""
        candidate = row.as_candidate
        accepting = candidate.accepting and row.id not in self.cordoned and row.id not in self.closed
        return replace(candidate, accepting=accepting, is_down=self.is_down(row.id))

    def version_of(self, row: EngineInstanceRow) -> str:
        """The version that an instance runs: as its agent reports, or else as ordered; empty if nobody knows."""
        health = self.health.get(row.id)
        return (health.version if health is not None else "") or row.wanted_version or ""

    def observed_release(self, row: EngineInstanceRow) -> Release:
        """The release of an instance, as its agent reports, or else as ordered: the one that its tenants meet."""
        return Release(self.version_of(row), row.profile or "")

    def desired_release(self, row: EngineInstanceRow) -> Release:
        """The release of an instance, as ordered, or else as its agent reports: to count instances that were added.

        Whatever is reported of an instance that was added, it is not added once more.
        """
        return Release(row.wanted_version or self.version_of(row), row.profile or "")

    def next_name(self, engine_cluster: str, ring: str) -> str:
        """Id for an instance that the planner adds: no other has it, or is in the namespace that goes with it.

        No id is given out again. Raises LookupError if retired ones were not loaded.
        """
        (name,) = self.next_names(engine_cluster, ring, 1)
        return name

    def next_names(self, engine_cluster: str, ring: str, count: int) -> list[str]:
        """``count`` such ids, none of them twice."""
        self._require_retired()
        taken = [name for row in self.instances.values() for name in (row.id, instance_in(row.namespace))]
        names: list[str] = []
        for _ in range(count):
            names.append(next_name(engine_cluster, ring, [*taken, *names]))
        return names

    def destination_of(self, tenant: TenantHere) -> str:
        """The instance that has the tenant, or the part of it, once its move is over."""
        return self.moves[tenant.id].destination if self.is_on_its_way(tenant) else tenant.engine_instance_id

    def is_on_its_way(self, tenant: TenantHere) -> bool:
        """Whether it is what the tenant's move is about, and not another part of that."""
        move = self.moves.get(tenant.id)
        return move is not None and not move.is_over and tenant.engine_instance_id in (move.source, move.target)

    def parts_of(self, tenant: TenantHere) -> frozenset[str]:
        """Other instances that the same tenant is on, of those whose tenants were loaded: a move leads to one of these.

        It costs a look at each of these tenants.
        """
        if not tenant.is_split:
            return frozenset()
        on = {each.engine_instance_id for each in self.tenants.rows.values() if each.id == tenant.id}
        return frozenset(on - {tenant.engine_instance_id})

    def with_rollout(self, rollout: Rollout) -> Fleet:
        """With this row as the rollout."""
        return replace(self, rollout=rollout)

    def with_move(self, move: Move) -> Fleet:
        """With this row in place of the one of its tenant."""
        return self.with_moves([move])

    def with_moves(self, moves: Iterable[Move]) -> Fleet:
        """With these rows in place of those of their tenants; the very same if each is the one that is there."""
        others = {move.tenant_id: move for move in moves if move is not self.moves.get(move.tenant_id)}
        return replace(self, moves={**self.moves, **others}) if others else self

    def with_coming(self, instance: str, tenant: TenantHere) -> Fleet:
        """With room on an instance taken for a tenant that is to come."""
        before = self.holding(instance)
        more = replace(before, tenants=before.tenants + 1, deployments=before.deployments + tenant.deployments)
        return replace(self, holdings={**self.holdings, instance: more})

    def with_pool(self, row: EnginePool) -> Fleet:
        """With this row in place of the one of its pool."""
        return replace(self, pools={**self.pools, row.key: row})

    def without_pool(self, key: PoolKey) -> Fleet:
        """Without the row of a pool."""
        return replace(self, pools={known: row for known, row in self.pools.items() if known != key})

    def with_cluster(self, row: EngineClusterRow) -> Fleet:
        """With this row in place of the one of its id."""
        return replace(self, clusters={**self.clusters, row.id: row})

    def with_instance(self, row: EngineInstanceRow) -> Fleet:
        """With this row in place of the one of its id, behind all others: rows are written in this order."""
        others = {known: each for known, each in self.instances.items() if known != row.id}
        return replace(self, instances={**others, row.id: row})
