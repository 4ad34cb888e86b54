"""What a batch of each kind costs the planner, while the fleet grows: on PostgreSQL, without Kafka and engines.

The fleet that grows is ring general. Ring canary stays as it is, with a rollout that is under way in it. The largest
fleet is measured twice: alone, and while thousands of tenants wait to be moved, with as many rows of what is kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
from rich.table import Table

from bench.workload import seen_deployment
from devstack.harness.hosted import HostedStack
from services.common.garbage_collection import collect_rarely
from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    AssignWorkspace,
    EngineHealth,
    FleetOrder,
    Health,
    Observation,
    Order,
    SetEnginePool,
    StartRollout,
)
from services.planner.database.rollout_queries import load_newest_rollout
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, FleetDue, HealthDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.rollouts.gates import DATA_PATIENCE
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from services.planner.rows.fleet import DEFAULT_ENGINE
from services.planner.rows.tenants import TenantName

CLUSTER, CANARY, GENERAL = "bench", "canary", "general"
OLD, NEW = "canary-old", "canary-new"
VERSIONS = {OLD: "3.1.16", NEW: "3.2.11"}
CAPACITY = 5_000
AT_ONCE = 500
"""Events of a batch that fills the fleet."""
POLICY = Policy(local_workspaces=dict.fromkeys((CANARY, GENERAL), frozenset({CLUSTER})))
"""Tenants are in workspaces that are named as their ring, and may deploy to the engines' own cluster."""
APPLICATIONS = "SELECT count(*) FROM engine_resources WHERE kind = 'Application' AND desired = 'present'"
GROWS_WITH_FLEET = "FleetDue, states"
"""It counts what is on all instances, every ten seconds."""
GROWS_WITH_OBJECTS = "the load of all instances"
"""It counts all that they hold: each planner does so every ten seconds, between batches."""
REMEDIES, LOOK, POOLS = "RemediesDue", "a look at a rollout", "ScalingDue"
MOVES = "FleetDue, moves"
OF_ALL_ROWS = {REMEDIES, LOOK, POOLS, MOVES}
"""They decide by how all instances are, and by all moves."""
MOST_GROWTH, NOISE_MS = 2.0, 2.0
"""A batch of any other kind takes no more than so many times as long in the largest fleet, and a little."""
ROW_MS = 0.05
"""More for each instance, of those that decide by how all are: its row and its health, and nothing on it. Likewise for
each move."""
EMPTY = "DELETE FROM engine_instances; DELETE FROM engine_clusters"
TIDY = "VACUUM ANALYZE"
MANY = 8_000
"""Moves that wait, as when a rollout comes to all of a large ring; and instances retired, workspaces and pins."""
MANY_RETIRED = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
SELECT 'gone-' || number, 'gone-' || number, 'retired', now(), engine, engine_cluster, region, engine_class,
       dedicated_to, ring, capacity, ordered_at
  FROM engine_instances CROSS JOIN generate_series(1, %(many)s) AS number WHERE id = %(source)s
"""
MANY_ASSIGNED = """
WITH assigned AS (
    INSERT INTO workspace_assignments (workspace, region, ring, assigned_at)
    SELECT 'workspace-' || number, '', 'general', now() FROM generate_series(1, %(many)s) AS number
)
INSERT INTO tenant_pins (workspace, namespace, engine_instance_id, pinned_at)
SELECT 'workspace-' || number, 'default', %(source)s, now() FROM generate_series(1, %(many)s) AS number
"""
# The first of them take up all places, and cannot go back.
MANY_MOVES = """
WITH movers AS (
    INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
    SELECT gen_random_uuid(), 'movers', 'mover-' || number, 1, %(source)s
      FROM generate_series(1, %(many)s + %(at_once)s) AS number
    RETURNING id, workspace, namespace, engine_instance_id
), numbered AS (SELECT *, row_number() OVER () AS number FROM movers)
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since)
SELECT gen_random_uuid(), id, workspace, namespace, 1, engine_instance_id, %(target)s,
       CASE WHEN number <= %(at_once)s THEN 'releasing' ELSE 'ordered' END, false, '{}', '', 'bench', now(), now()
  FROM numbered
"""

Costs = Mapping[str, Mapping[int, float]]
"""Median milliseconds: by kind of batch, and number of instances, or of moves that wait."""


@dataclass
class Fleet:
    """A fleet in a database, and the planner's session."""

    session: DatabaseSession
    tenants_each: int
    applications_each: int
    """Of all tenants of an instance."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    size: int = 0
    applications: int = 0
    generation: int = 1

    def take(self, *events: Event) -> float:
        """Plan a batch and commit it; returns its milliseconds. Raises RuntimeError if an order is refused."""
        began = time.perf_counter()
        changes = plan_batch(events, self.session, POLICY, self.now)
        self.session.save_changes(changes, ())
        spent = time.perf_counter() - began
        for record in changes.other.fleet_orders:
            if record.outcome == "refused":
                raise RuntimeError(f"{record.kind} {record.subject} is refused: {record.message}")
        return spent * 1000

    def order(self, *orders: Order) -> None:
        """As an operator."""
        self.now += timedelta(seconds=1)
        self.take(*(Event(FleetOrder(uuid4(), "bench", self.now, order), 0, "") for order in orders))

    def begin_rollout(self) -> None:
        """Ring canary: tenants on the old instance, of which the first is on its way to the new one."""
        self.order(AddEngineCluster(CLUSTER, ""))
        self.join(CANARY, VERSIONS[OLD], OLD)
        self.fill(CANARY, 0, 1)
        self.join(CANARY, VERSIONS[NEW], NEW)
        self.order(StartRollout(VERSIONS[NEW], "", (CANARY,), 3600, is_security=False))
        self.look()
        self.now += DATA_PATIENCE
        self.look()
        with self.session.connection() as connection:
            begun = load_newest_rollout(connection)
        if begun is None or begun.step != "moving":
            raise RuntimeError(f"the rollout has not come to its moves: {begun}")

    def join(self, ring: str, version: str, *names: str) -> None:
        """Instances of a ring, ready as soon as their agents tell that they work."""
        self.order(*(instance(name, ring) for name in names))
        self.take(*(self.told(name, Health.HEALTHY, version) for name in names))
        self.take(Event(FleetDue(is_of_states=False), 0, ""))

    def grow(self, size: int) -> None:
        """Ring general: to so many instances."""
        numbers = range(self.size, size)
        self.join(GENERAL, VERSIONS[OLD], *map(named, numbers))
        self.order(AssignWorkspace(GENERAL, "", GENERAL))
        self.session.refresh_fleet()
        self.fill(GENERAL, self.size, size)
        self.order(SetEnginePool(CLUSTER, GENERAL, size, size, 0, CAPACITY, VERSIONS[OLD], ""))
        self.session.refresh_fleet()
        self.size = size

    def fill(self, workspace: str, first: int, last: int) -> float:
        """Tenants and Applications of the instances with these numbers; returns the milliseconds of their batches."""
        wanted = [
            seen_deployment(self.tenant(workspace, place, number), f"app-{number}", self.now)
            for place in range(first, last)
            for number in range(self.applications_each)
        ]
        begins = range(0, len(wanted), AT_ONCE)
        spent = sum(self.take(*(Event(each, 0, "") for each in wanted[begin : begin + AT_ONCE])) for begin in begins)
        self.applications += len(wanted)
        with self.session.connection() as connection:
            ((count,),) = connection.execute(APPLICATIONS).fetchall()
        if count != self.applications:
            raise RuntimeError(f"{count} of {self.applications} Applications are wanted of engines")
        return spent

    def tenant(self, workspace: str, place: int, number: int) -> TenantName:
        """Whose an Application is."""
        return (workspace, f"tenant-{place:03d}-{number % self.tenants_each:03d}")

    def told(self, name: str, health: Health, version: str) -> Event:
        """By the agent of an instance, a second after what was told before."""
        self.now += timedelta(seconds=1)
        event = EngineHealth(health.value, "", "", version, self.now, applications=self.applications_each)
        return Event(Observation("", "", name, "", "", self.now, event), 0, "")

    def change(self) -> float:
        """One deployment, of a tenant in memory."""
        self.generation += 1
        changed = seen_deployment(
            self.tenant(GENERAL, 0, 0), "app-0", self.now,
            resource_version=self.generation, generation=self.generation,
        )  # fmt: skip
        return self.take(Event(changed, 0, ""))

    def change_after_eviction(self) -> float:
        """The same of a tenant that is read first."""
        self.session.tenants.forget_tenants()
        return self.change()

    def report(self) -> float:
        """An instance is ill, and well again."""
        self.generation += 1
        health = Health.DEGRADED if self.generation % 2 else Health.HEALTHY
        return self.take(self.told(named(0), health, VERSIONS[OLD]))

    def fall_silent(self) -> float:
        """An agent tells nothing for long."""
        self.take(self.told(named(0), Health.HEALTHY, VERSIONS[OLD]))
        told_at, self.now = self.now, self.now + POLICY.health_patience
        spent = self.take(Event(HealthDue(named(0)), 0, ""))
        self.now = told_at
        return spent

    def remedy(self) -> float:
        """An instance is ill."""
        self.take(self.told(named(0), Health.DEGRADED, VERSIONS[OLD]))
        return self.take(Event(RemediesDue(), 0, ""))

    def look(self) -> float:
        """At the rollout."""
        self.now += POLICY.rollout_interval
        return self.take(Event(FleetDue(is_of_states=False), 0, ""))

    def look_at_moves(self) -> float:
        """One may begin, and none does; the rollout is not looked at."""
        return self.take(Event(FleetDue(is_of_states=False), 0, ""))

    def scale(self) -> float:
        """All instances of ring general are in a pool."""
        return self.take(Event(ScalingDue(), 0, ""))

    def settle_states(self) -> float:
        """Of all instances; a rollout that is due is looked at, too."""
        return self.take(Event(FleetDue(), 0, ""))

    def measure_load(self) -> float:
        """Of all instances, and what else a planner reads of the fleet."""
        began = time.perf_counter()
        self.session.refresh_fleet()
        return (time.perf_counter() - began) * 1000

    @property
    def batches(self) -> Mapping[str, Callable[[], float]]:
        """What is measured, each with its milliseconds."""
        return {
            "deployment changed": self.change,
            "deployment changed, tenant not in memory": self.change_after_eviction,
            "health report": self.report,
            "HealthDue": self.fall_silent,
            REMEDIES: self.remedy,
            LOOK: self.look,
            MOVES: self.look_at_moves,  # right after that: it is not due again
            POOLS: self.scale,
            GROWS_WITH_FLEET: self.settle_states,
            GROWS_WITH_OBJECTS: self.measure_load,
        }


def named(number: int) -> str:
    """An instance of ring general."""
    return f"general-{number:03d}"


def instance(name: str, ring: str) -> AddEngineInstance:
    """In the one cluster."""
    return AddEngineInstance(name, CLUSTER, name, DEFAULT_ENGINE, "shared", "", ring, CAPACITY)


def add_waiting(owner: psycopg.Connection[Any], source: str, target: str) -> None:
    """Moves that wait, and what is kept of before."""
    given = {"many": MANY, "at_once": POLICY.moves_at_once, "source": source, "target": target}
    for statement in (MANY_RETIRED, MANY_ASSIGNED, MANY_MOVES):
        owner.execute(statement, given)


def measure(
    stack: HostedStack, sizes: Sequence[int], tenants_each: int, applications_each: int, times: int
) -> tuple[Costs, Costs]:
    """Each kind of batch in fleets of these sizes; and in the largest, without and with moves that wait.

    From then on this process looks for cycles as rarely as a planner does.
    """
    collect_rarely()
    owner_url = stack.environment["DATABASE_OWNER_URL"]
    stack.kill("connect")  # nothing is streamed
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(EMPTY)
    found: dict[str, dict[int, float]] = {}
    largest = max(sizes)
    with closing(DatabaseSession(stack.environment["DATABASE_URL"], ENGINES)) as session:
        fleet = Fleet(session, tenants_each, applications_each)
        fleet.begin_rollout()
        for size in sorted(sizes):
            fleet.grow(size)
            with psycopg.connect(owner_url, autocommit=True) as owner:
                owner.execute(TIDY)
            for name, spent in medians(fleet, times):
                found.setdefault(name, {})[size] = spent
        with psycopg.connect(owner_url, autocommit=True) as owner:
            add_waiting(owner, named(0), named(largest - 1))
            owner.execute(TIDY)
        session.refresh_fleet()
        waiting = {name: {0: found[name][largest], MANY: spent} for name, spent in medians(fleet, times)}
    return found, waiting


def medians(fleet: Fleet, times: int) -> Iterator[tuple[str, float]]:
    """Of each kind of batch, as the fleet is."""
    for name, batch in fleet.batches.items():
        yield name, median(batch, times)


def median(batch: Callable[[], float], times: int) -> float:
    """Of some, after one that is not counted."""
    batch()
    return statistics.median(batch() for _ in range(times))


def find_growing(found: Costs, of: str = "instances") -> Iterator[str]:
    """Kinds of batches that take longer with more instances, or whatever the columns are of, than they may."""
    for name, costs in found.items():
        fewest, most = min(costs), max(costs)
        rows = ROW_MS * (most - fewest) if name in OF_ALL_ROWS else 0.0
        exceeds = costs[most] > MOST_GROWTH * costs[fewest] + NOISE_MS + rows
        if exceeds and name not in {GROWS_WITH_FLEET, GROWS_WITH_OBJECTS}:
            yield f"{name}: {costs[fewest]:.1f} ms with {fewest} {of}, {costs[most]:.1f} ms with {most}"


def table_of(found: Costs, of: str = "instances") -> Table:
    """The figures, for people."""
    sizes = sorted(next(iter(found.values()), {}))
    table = Table("milliseconds of a batch", *(f"{size} {of}" for size in sizes), title="The planner's batches")
    for name, costs in found.items():
        table.add_row(name, *(f"{costs[size]:.1f}" for size in sizes))
    return table
