"""A rollout in PostgreSQL: planners that end at any look, before or after the commit, leave what none would have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from services.common.messages import AbortRollout, EngineHealth, FleetOrder, Observation, Order, StartRollout
from services.planner.database.rollout_queries import (
    delete_rollouts,
    delete_samples,
    is_rollout_due,
    load_newest_rollout,
    rollout_states,
)
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, FleetDue
from services.planner.domain.fleet.rollout_rows import Rollout
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at, changed

OLD, NEW = "old", "new"
VERSIONS = {OLD: "3.1.16", NEW: "3.2.11"}
TENANTS = 12
START = StartRollout("3.2.11", "", (), 120, is_security=False)
EVERY = timedelta(seconds=60)
# What planners of tenants and agents do, but at once: test_moves.py is about that.
ARRIVED = """
  WITH begun AS (UPDATE moves SET step = 'done' WHERE step = 'reserved' AND NOT is_cancelled
              RETURNING tenant_id, workspace, namespace, target),
       arrived AS (UPDATE tenants t SET engine_instance_id = begun.target FROM begun WHERE t.id = begun.tenant_id)
UPDATE engine_resources e SET engine_instance_id = begun.target
  FROM begun WHERE (e.workspace, e.tenant_namespace) = (begun.workspace, begun.namespace)
"""
GONE_BACK = "UPDATE moves SET step = 'cancelled' WHERE step = 'reserved' AND is_cancelled"
PLACES = "SELECT engine_instance_id, count(*) FROM tenants GROUP BY 1 ORDER BY 1"
STATES = "SELECT id, state FROM engine_instances ORDER BY id"
MOVES = "SELECT target, count(*), count(DISTINCT tenant_id) FROM moves WHERE step = 'done' GROUP BY 1 ORDER BY 1"


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Fleet:
    """Two instances of two versions; tenants on the old one. Each look is another process."""

    database: Database
    crashes: str = ""
    """Where each process ends that looks: ``before`` the commit, ``after`` it; empty: nowhere."""
    now: datetime = field(default_factory=lambda: at(10_000))
    failing: int = 0
    """Applications of the new instance that cannot be compared."""
    course: list[tuple[str, int]] = field(default_factory=list)
    """Step and stage, at each change."""

    def take(self, *events: Event, crash: str = "") -> None:
        """One process, that plans these."""
        with closing(DatabaseSession(self.database.planner_url, ENGINES)) as session:
            changes = plan_batch(events, session, Policy(moves_at_once=5), self.now)
            if crash == "before":
                session.write_changes(changes, ())
                return
            session.save_changes(changes, ())

    def order(self, order: Order) -> None:
        """One that an operator gives."""
        number = int(self.now.timestamp())
        self.take(Event(FleetOrder(UUID(int=number), "ada", self.now, order), 0, ""))

    def tell(self) -> None:
        """Of both instances, by their agents."""
        for name, version in VERSIONS.items():
            errors = self.failing if name == NEW else 0
            event = EngineHealth("Healthy", "", "", version, self.now, 12, 0, 0, errors, 30_000, 1_000)
            self.take(Event(Observation("", "", name, "", "", self.now, event), 0, ""))

    def live(self) -> Rollout:
        """A minute: agents tell, planners look, moves come to their ends."""
        self.tell()
        if self.crashes == "before":
            self.take(Event(FleetDue(), 0, ""), crash="before")
        self.take(Event(FleetDue(), 0, ""))
        if self.crashes == "after":
            self.take(Event(FleetDue(), 0, ""))
        with psycopg.connect(self.database.owner_url) as owner:
            owner.execute(ARRIVED)
            owner.execute(GONE_BACK)
        self.now += EVERY
        with psycopg.connect(self.database.owner_url) as owner:
            rollout = load_newest_rollout(owner)
        assert rollout is not None
        if not self.course or self.course[-1] != (rollout.step, rollout.stage):
            self.course.append((rollout.step, rollout.stage))
        return rollout

    def until(self, *steps: str) -> Rollout:
        """Until the rollout is at one of these."""
        for _ in range(200):
            rollout = self.live()
            if rollout.step in steps:
                return rollout
        raise AssertionError(rollout)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database.owner_url) as owner:
            return owner.execute(query.encode()).fetchall()


@pytest.fixture
def fleet(database: Database) -> Iterator[Fleet]:
    """The new instance joins when all tenants are on the old one."""
    made = Fleet(database)
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, OLD, "argocd-old")
    for number in range(TENANTS):
        made.take(changed(1, namespace=f"team-{number}", uid=f"uid-{number}"))
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, NEW, "argocd-new")
    for _ in range(3):
        made.tell()
        made.now += EVERY
    return made


COURSE = [
    ("provisioning", 0), ("moving", 1), ("soaking", 1), ("moving", 10), ("soaking", 10), ("moving", 100),
    ("soaking", 100), ("draining", 100), ("retiring", 100), ("done", 100),
]  # fmt: skip


@pytest.mark.parametrize("crashes", ["", "before", "after"])
def test_rollout_when_planners_end_at_each_step_then_it_goes_on_and_every_tenant_has_moved_once(
    fleet: Fleet, crashes: str
) -> None:
    fleet.crashes = crashes
    fleet.order(START)
    fleet.until("done")
    assert fleet.course == COURSE
    assert fleet.rows(PLACES) == [(NEW, TENANTS)]
    assert fleet.rows(STATES) == [(NEW, "accepting"), (OLD, "retired")]
    assert fleet.rows(MOVES) == [(NEW, TENANTS, TENANTS)]


@pytest.mark.parametrize("crashes", ["", "before", "after"])
def test_gate_when_it_fails_and_planners_end_at_each_step_then_every_tenant_is_back(fleet: Fleet, crashes: str) -> None:
    fleet.crashes = crashes
    fleet.order(START)
    while fleet.live().stage < 100:
        pass
    fleet.failing = 12
    over = fleet.until("failed")
    assert over.reason.startswith("at 100 %: engine instance new: 12.0 of 12.0 Applications could not be compared")
    assert fleet.rows(PLACES) == [(OLD, TENANTS)]
    assert fleet.rows(STATES) == [(NEW, "drained"), (OLD, "accepting")]
    assert max(count for _, _, count in fleet.rows(MOVES)) <= TENANTS  # type: ignore[type-var]


def test_tenants_when_new_ones_come_then_they_are_placed_where_the_stage_wants_them(fleet: Fleet) -> None:
    def placed(name: str) -> object:
        fleet.take(changed(1, namespace=name, uid=name))
        return fleet.rows(f"SELECT engine_instance_id FROM tenants WHERE namespace = '{name}'")[0][0]  # noqa: S608

    fleet.order(START)
    fleet.until("soaking")
    assert {placed(f"early-{number}") for number in range(5)} == {OLD}
    while fleet.live().stage < 100:
        pass
    assert {placed(f"late-{number}") for number in range(5)} == {NEW}
    fleet.order(AbortRollout())
    fleet.live()
    assert placed("back") == OLD


def test_rollout_when_it_waits_or_is_over_then_it_is_looked_at_when_due_and_counted_and_forgotten(fleet: Fleet) -> None:
    fleet.order(START)
    with psycopg.connect(fleet.database.planner_url) as planner:
        assert not is_rollout_due(planner, fleet.now)
        assert is_rollout_due(planner, fleet.now + timedelta(seconds=5))
        assert rollout_states(planner, fleet.now)["running"] == 1
    fleet.order(AbortRollout())
    with psycopg.connect(fleet.database.planner_url) as planner:
        assert not is_rollout_due(planner, fleet.now + timedelta(days=1))
        assert rollout_states(planner, fleet.now)["aborted"] == 1
        assert sum(rollout_states(planner, fleet.now + timedelta(days=2)).values()) == 0
        assert (delete_rollouts(planner, at(0)), delete_rollouts(planner, fleet.now + EVERY)) == (0, 1)
        assert delete_samples(planner, fleet.now, 4) == 4
        assert delete_samples(planner, fleet.now, 4) == 2
