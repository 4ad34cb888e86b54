"""What a batch reads, as PostgreSQL counts it: of a large fleet as much as of a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from services.common.messages import EngineHealth, FleetOrder, Observation, StartRollout
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, FleetDue, HealthDue, RemediesDue, ScalingDue
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.reading import rows_read
from tests.unit.planner.given import at, changed, spec

POLICY = Policy()
PATIENCE = POLICY.health_patience
SMALL, LARGE = 1, 50
TENANTS_EACH, MORE_EACH = 3, 30
START = StartRollout("3.2.11", "", ("canary",), 120, is_security=False)
OLD, NEW = "old", "new"


class Fleet:
    """Instances of ring general that grow in number, and two of ring canary: one has a newer version."""

    def __init__(self, database: Database, session: DatabaseSession) -> None:
        self.database, self.session = database, session
        self.size = 0
        self.now = at(10_000)
        self.generation = 1
        with psycopg.connect(database.owner_url) as owner:
            for instance in (OLD, NEW):
                add_instance(owner, instance, f"argocd-{instance}")
        self._place(OLD)
        with psycopg.connect(database.owner_url) as owner:
            owner.execute("UPDATE engine_instances SET ring = 'canary'")
        session.refresh_fleet()

    def grow(self, size: int) -> None:
        """To so many instances of ring general, each with tenants."""
        for number in range(self.size, size):
            with psycopg.connect(self.database.owner_url) as owner:
                add_instance(owner, f"i{number}", f"argocd-{number}")
            self._place(f"i{number}")
            self.take(self.told(f"i{number}"))
        self.size = size

    def crowd(self) -> None:
        """More tenants, on the instances of ring general."""
        for number in range(self.size):
            self._place(f"i{number}", TENANTS_EACH, MORE_EACH)

    def take(self, *events: Event, now: datetime | None = None) -> None:
        """Plan these, and commit."""
        self.session.save_changes(plan_batch(events, self.session, POLICY, now or self.now), ())

    def told(self, instance: str, health: str = "Healthy", version: str = "3.1.16", applications: int = 9) -> Event:
        """By its agent, a second after what was told before."""
        self.now += timedelta(seconds=1)
        event = EngineHealth(health, "", "", version, self.now, applications=applications)
        return Event(Observation("", "", instance, "", "", self.now, event), 0, "")

    def read(self, *events: Event, now: datetime | None = None) -> int:
        """How many rows and entries of indexes a batch reads, without those of versions that are nobody's any more."""
        return rows_read(self.database, self.session, lambda: self.take(*events, now=now))

    def _place(self, instance: str, first: int = 0, last: int = TENANTS_EACH) -> None:
        """Tenants, with a deployment each, on an instance."""
        names = [f"{instance}-{number}" for number in range(first, last)]
        self.session.refresh_fleet()
        self.take(*(changed(1, namespace=name, uid=name) for name in names))
        with psycopg.connect(self.database.owner_url) as owner:
            owner.execute("UPDATE tenants SET engine_instance_id = %s WHERE namespace = ANY(%s)", (instance, names))
            owner.execute(
                "UPDATE engine_resources SET engine_instance_id = %s WHERE tenant_namespace = ANY(%s)",
                (instance, names),
            )
        self.session.tenants.forget_tenants()


@pytest.fixture
def fleet(database: Database) -> Iterator[Fleet]:
    """With one instance in ring general."""
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        made = Fleet(database, session)
        made.grow(SMALL)
        yield made


def evicted(fleet: Fleet) -> int:
    """A deployment is changed whose tenant is not in memory."""
    fleet.generation += 1
    fleet.session.tenants.forget_tenants()
    content = spec(source={"path": f"apps/{fleet.generation}"})
    name, generation = "i0-0", fleet.generation
    return fleet.read(changed(generation, namespace=name, uid=name, generation=generation, content=content))


def reported(fleet: Fleet) -> int:
    """A change of an instance's health."""
    fleet.take(fleet.told("i0"))
    return fleet.read(fleet.told("i0", "Degraded"))


def silent(fleet: Fleet) -> int:
    """Its agent tells nothing any more."""
    fleet.take(fleet.told("i0"))
    return fleet.read(Event(HealthDue("i0"), 0, ""), now=fleet.now + PATIENCE)


def remedied(fleet: Fleet) -> int:
    """An instance is ill."""
    fleet.take(fleet.told("i0", "Degraded"))
    return fleet.read(Event(RemediesDue(), 0, ""))


def cordoned(fleet: Fleet) -> int:
    """An instance does some of its work, and nothing has helped: nobody comes to it, and nobody has to leave it."""
    fleet.take(fleet.told("i0", "Degraded"))
    fleet.now += POLICY.remedies.after
    fleet.take(Event(RemediesDue(), 0, ""))
    fleet.now += POLICY.remedies.cool_down
    return fleet.read(Event(RemediesDue(), 0, ""))


def looked_at(fleet: Fleet) -> int:
    """The rollout of ring canary."""
    fleet.now += POLICY.rollout_interval
    return fleet.read(Event(FleetDue(is_of_states=False), 0, ""))


def overloaded(fleet: Fleet) -> int:
    """An instance in no pool carries too much, and has not for long."""
    with psycopg.connect(fleet.database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET capacity = 1 WHERE id = 'i0'")
    fleet.session.refresh_fleet()
    return fleet.read(Event(ScalingDue(), 0, ""))


@pytest.mark.parametrize("batch", [evicted, reported, silent])
def test_batch_when_it_is_about_one_tenant_or_instance_then_it_reads_as_much_of_a_large_fleet(
    fleet: Fleet, batch: Callable[[Fleet], int]
) -> None:
    batch(fleet)
    few = batch(fleet)
    fleet.grow(LARGE)
    assert 0 < batch(fleet) <= few


MANY = 300
RETIRE = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
SELECT 'gone-' || number, 'gone-' || number, 'retired', to_timestamp(0), 'argocd', 'default', '', 'shared', '',
       'general', 2500, to_timestamp(0)
  FROM generate_series(1, %s) AS number
"""
ASSIGN = """
WITH assigned AS (
    INSERT INTO workspace_assignments (workspace, region, ring, assigned_at)
    SELECT 'workspace-' || number, '', 'general', to_timestamp(0) FROM generate_series(1, %(many)s) AS number
)
INSERT INTO tenant_pins (workspace, namespace, engine_instance_id, pinned_at)
SELECT 'workspace-' || number, 'default', 'i0', to_timestamp(0) FROM generate_series(1, %(many)s) AS number
"""
# Their target takes none of them: one that is down is waited for.
ORDER_MOVES = """
WITH movers AS (
    INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
    SELECT gen_random_uuid(), 'movers', 'mover-' || number, 1, 'i1' FROM generate_series(1, %(many)s) AS number
    RETURNING id, workspace, namespace
)
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since)
SELECT gen_random_uuid(), id, workspace, namespace, 1, 'i1', 'i2', 'ordered', false, '{}', '', 'ada',
       to_timestamp(0), to_timestamp(0)
  FROM movers
"""
MOVED_READ = 6
"""Rows and entries of indexes at most, of a move that waits: it is read, and whether there is its tenant."""
RETIRED_READ = 6
"""Likewise of an instance that was given up: whether anything names it still."""


def looked_at_moves(fleet: Fleet) -> int:
    """A move may begin; none does."""
    return fleet.read(Event(FleetDue(is_of_states=False), 0, ""))


def retire_many(owner: psycopg.Connection[Any]) -> None:
    """Rows of instances that were given up, which are kept for their ids."""
    owner.execute(RETIRE, (MANY,))


def assign_many(owner: psycopg.Connection[Any]) -> None:
    """Workspaces to a ring, and tenants that are still to come to an instance."""
    owner.execute(ASSIGN, {"many": MANY})


def order_many_moves(owner: psycopg.Connection[Any]) -> None:
    """Of tenants of one instance, to another one."""
    owner.execute(ORDER_MOVES, {"many": MANY})


@pytest.fixture
def waiting(fleet: Fleet) -> Fleet:
    """With three instances in ring general, of which the last is down."""
    fleet.grow(3)
    fleet.take(fleet.told("i2", "Down"))
    return fleet


@pytest.mark.parametrize(
    ("batch", "add"),
    [
        *((batch, add) for batch in (evicted, reported, silent) for add in (retire_many, assign_many)),
        *((batch, order_many_moves) for batch in (evicted, reported, silent)),
        (looked_at_moves, assign_many),
    ],
)
def test_batch_when_many_instances_are_retired_or_much_is_assigned_or_waits_to_move_then_it_reads_none_of_that(
    waiting: Fleet, batch: Callable[[Fleet], int], add: Callable[[psycopg.Connection[Any]], None]
) -> None:
    batch(waiting)
    few = batch(waiting)
    with psycopg.connect(waiting.database.owner_url) as owner:
        add(owner)
    waiting.session.refresh_fleet()
    assert 0 < batch(waiting) <= few


def test_look_when_many_moves_wait_then_it_reads_a_few_rows_of_each(waiting: Fleet) -> None:
    looked_at_moves(waiting)
    few = looked_at_moves(waiting)
    with psycopg.connect(waiting.database.owner_url) as owner:
        order_many_moves(owner)
    assert looked_at_moves(waiting) <= few + MOVED_READ * MANY


def test_fleet_when_it_is_read_anew_then_few_rows_are_read_of_each_move_and_each_retired_instance(
    waiting: Fleet,
) -> None:
    """And not of each move for each retired instance."""

    def read() -> int:
        return rows_read(waiting.database, waiting.session, waiting.session.refresh_fleet)

    few = read()
    with psycopg.connect(waiting.database.owner_url) as owner:
        retire_many(owner)
        order_many_moves(owner)
    assert few < read() <= few + (MOVED_READ + RETIRED_READ) * MANY


@pytest.mark.parametrize("batch", [evicted, reported, silent, remedied, cordoned, looked_at, overloaded])
def test_batch_when_it_places_nobody_then_it_reads_as_much_however_many_tenants_other_instances_have(
    fleet: Fleet, batch: Callable[[Fleet], int]
) -> None:
    fleet.grow(3)
    fleet.take(fleet.told(OLD), fleet.told(NEW, version="3.2.11"))
    fleet.take(Event(FleetOrder(UUID(int=1), "ada", fleet.now, START), 0, ""))
    batch(fleet)
    few = batch(fleet)
    fleet.crowd()
    assert 0 < batch(fleet) <= few
