"""The fleet as one value: what operators' orders, and all that is due, are decided on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.planner.domain.fleet.moves.pace import Pace
from services.planner.domain.fleet.placement.assignments import PlacementRules
from services.planner.domain.fleet.pools.pool_rows import EnginePool, PoolKey, instance_in, next_name
from services.planner.domain.fleet.reports.report_rows import Installation, InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import Figures, Rollout
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move, Release
from services.planner.rows.fleet import EngineInstance
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
class ClusterTopic:
    """A topic of an engine cluster, as the brokers tell of it."""

    name: str
    partitions: int | None
    """0 if it does not exist; None if planners may not ask for it."""
    needed: int
    """How many partitions it has to have."""


@dataclass(frozen=True, slots=True)
class TenantHere:
    """A tenant that an order is about, or a part of one: what it has on one of its instances."""

    id: UUID
    partition: int
    engine_instance_id: str
    deployments: int
    """GitOpsDeployments of which there is an object."""
    of_engine_cluster: int = 0
    """Those of them that are deployed to the engine's own cluster: they name no environment."""
    is_split: bool = False
    """Whether it is a part of a tenant, or the rest of one that has parts elsewhere."""
    load: int = 0
    """What its instance carries for it: measured of all tenants, and of those that pools and relief may move."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What orders are decided on."""

    clusters: Mapping[str, EngineClusterRow]
    instances: Mapping[str, EngineInstanceRow]
    """Retired ones included; only those that moves lead to where no order and no look at the fleet goes by them."""
    holdings: Mapping[str, Holding]
    """By instance; none of one that is empty, or :attr:`uncounted`."""
    engines: frozenset[str]
    """Those that this build knows."""
    tenants: Mapping[TenantName, TenantHere] = field(default_factory=dict)
    """Those that orders name, by their names, and those of a ring that is looked at; all, if an order is about all.
    Of a tenant that is split, each of its parts, by names of their own (``TENANT@INSTANCE``)."""
    moves: Mapping[UUID, Move] = field(default_factory=dict)
    """Those that are not over, by their tenants' ids; the oldest order first."""
    gone: frozenset[UUID] = frozenset()
    """Tenants that moves are of, and that there are no more."""
    decided: frozenset[UUID] = frozenset()
    """Orders that were decided before: nothing becomes of them when they come again."""
    health: Mapping[str, InstanceHealth] = field(default_factory=dict)
    """By instance; none of one of which no agent has told anything yet."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Instances that remediation keeps new tenants from, with why."""
    suspended: frozenset[str] = frozenset()
    """Instances that remediation does not touch, as too many are ill at once: no evacuation goes on."""
    rules: PlacementRules = field(default_factory=PlacementRules)
    """What workspaces and tenants are assigned to; none where no order and no look at the fleet goes by it."""
    load: Mapping[str, int] = field(default_factory=dict)
    """What instances carry, by their ids, as measured last and by what the planner has added since
    (``placement/measured_load.py`` has the unit): for pools, relief, and the size of a rolled out ring."""
    installations: Mapping[str, Installation] = field(default_factory=dict)
    """By instance; none of one of which no provisioner has told anything."""
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
    is_rebuilt: bool = False
    """A rebuild is under way: of what is on instances there are only the rows that it has come to."""
    uncounted: frozenset[str] = frozenset()
    """Instances of which nobody has read what is on them: nothing is decided that depends on it."""
    returned: Mapping[tuple[UUID, str], int] = field(default_factory=dict)
    """By tenant and target, how many moves went back of late because a step took too long. Read where they count."""
    evacuations: Mapping[TenantName, frozenset[str]] = field(default_factory=dict)
    """By tenant, instances that it was evacuated from of late for a reason that a tenant can cause. Read where they
    count."""
    pace: Pace | None = None
    """Of moves, while they give way to changes that wait."""
    cluster_topics: Mapping[str, Sequence[ClusterTopic]] = field(default_factory=dict)
    """By engine cluster, of those that orders add. None where nobody has asked: ``gitopsctl`` tries an order before it
    makes the topics."""

    def holding(self, instance: str) -> Holding:
        """What is on it. Raises LookupError if that was not read."""
        if instance in self.uncounted:
            raise LookupError(f"what is on engine instance {instance} was not read")
        return self.holdings.get(instance, NOTHING_HELD)

    def with_holdings(self, counted: Mapping[str, Holding]) -> Fleet:
        """With what is on some of the instances."""
        return replace(self, holdings={**self.holdings, **counted}, uncounted=self.uncounted - counted.keys())

    def is_down(self, instance: str) -> bool:
        """Whether nothing new is deployed there, as far as anybody knows."""
        told = self.health.get(instance)
        return told is not None and told.is_down

    def is_ill(self, instance: str) -> bool:
        """Whether it is not well, as far as anybody has told."""
        told = self.health.get(instance)
        return told is not None and told.is_ill

    def is_well(self, instance: str) -> bool:
        """Whether it is not ill, and remediation keeps no tenant from it."""
        return not self.is_ill(instance) and instance not in self.cordoned

    def takes_tenants(self, row: EngineInstanceRow) -> bool:
        """Whether tenants may come to it, as far as there is room, and its release is no reason against it.

        It works, and remediation does not keep them from it.
        """
        return row.is_taking and not self.is_down(row.id) and row.id not in self.cordoned

    def is_held_back(self, move: Move) -> bool:
        """Whether a move is one of an evacuation that is held: it does not begin until fewer instances are ill."""
        return move.step == "ordered" and move.path != "whole" and move.source in self.suspended

    def down_in_words(self, instance: str) -> str:
        """Of an instance that is down, as operators are told."""
        told = self.health[instance]
        return f"engine instance {instance} is down: {told.message or told.reason}"

    def ill_in_words(self, instance: str) -> str:
        """Of an instance that is not well, as operators are told."""
        if not self.is_ill(instance):
            return f"engine instance {instance} is cordoned: {self.cordoned[instance]}"
        if self.is_down(instance):
            return self.down_in_words(instance)
        told = self.health[instance]
        return f"engine instance {instance} is {told.health}: {told.message or told.reason}"

    def is_out_of_reach(self, instance: str) -> bool:
        """Whether nobody can do anything there, as far as anybody knows."""
        told = self.health.get(instance)
        return told is not None and told.is_out_of_reach

    def is_given_up(self, instance: str) -> bool:
        """Whether remediation gives it up, though its cluster can be reached: another takes its place there."""
        return instance in self.cordoned and self.is_down(instance) and not self.is_out_of_reach(instance)

    def candidate(self, row: EngineInstanceRow) -> EngineInstance:
        """An instance as placement sees it, with its health; one that is cordoned or closed accepts no tenants."""
        candidate = row.as_candidate
        accepting = candidate.accepting and row.id not in self.cordoned and row.id not in self.closed
        return replace(candidate, accepting=accepting, is_down=self.is_down(row.id))

    def version_of(self, row: EngineInstanceRow) -> str:
        """What an instance runs: as its agent tells, or else as it was ordered; empty if nobody knows."""
        told = self.health.get(row.id)
        return (told.version if told is not None else "") or row.wanted_version or ""

    def observed_release(self, row: EngineInstanceRow) -> Release:
        """What an instance is of, as its agent tells, or else as it was ordered: what its tenants meet."""
        return Release(self.version_of(row), row.profile or "")

    def desired_release(self, row: EngineInstanceRow) -> Release:
        """What an instance is of, as it was ordered, or else as its agent tells: for who counts what was added.

        Whatever is told of an instance that was added, it is not added once more.
        """
        return Release(row.wanted_version or self.version_of(row), row.profile or "")

    def next_name(self, engine_cluster: str, ring: str) -> str:
        """Id for an instance that the planner adds: no other has it, or is in the namespace that goes with it.

        No id is given out again, so :attr:`instances` has to have the retired ones.
        """
        (name,) = self.next_names(engine_cluster, ring, 1)
        return name

    def next_names(self, engine_cluster: str, ring: str, count: int) -> list[str]:
        """``count`` such ids, none of them twice."""
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
        """Other instances that the same tenant is on, as far as they are known. They cost a look at all tenants."""
        if not tenant.is_split:
            return frozenset()
        return frozenset(each.engine_instance_id for each in self.tenants.values() if each.id == tenant.id) - {
            tenant.engine_instance_id
        }

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
        held = self.holding(instance)
        more = replace(held, tenants=held.tenants + 1, deployments=held.deployments + tenant.deployments)
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
