"""A rollout in PostgreSQL: planners that end at any look, before or after the commit, leave what none would have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from services.common.messages import (
    AbortRollout,
    DrainEngineInstance,
    EngineHealth,
    FleetOrder,
    Observation,
    Order,
    PauseRollout,
    RebalanceFleet,
    ResumeRollout,
    StartRollout,
)
from services.planner.database.fleet_queries import load_fleet_rows
from services.planner.database.rollout_queries import (
    delete_rollouts,
    delete_samples,
    is_rollout_due,
    load_closed,
    load_newest_rollout,
    rollout_states,
)
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, FleetDue, ScalingDue
from services.planner.domain.fleet.rollouts.rollout_rows import STALLED_AFTER, Rollout
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at, changed

OLD, NEW = "old", "new"
VERSIONS = {OLD: "3.1.16", NEW: "3.2.11"}
TENANTS = 24
START = StartRollout("3.2.11", "", (), 120, is_security=False)
EVERY = timedelta(seconds=60)
LOOK = Event(FleetDue(is_of_states=False), 0, "")
POLICY = Policy(moves_at_once=5)
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


@dataclass
class Fleet:
    """Two instances of two versions; tenants on the old one. Each look that ends somewhere is another process."""

    database: Database
    session: DatabaseSession
    """Of the process that goes on."""
    crashes: str = ""
    """Where each process ends that looks: ``before`` the commit, ``after`` it; empty: nowhere."""
    now: datetime = field(default_factory=lambda: at(10_000))
    failing: int = 0
    """Applications of the new instance that cannot be compared, each of another tenant."""
    lost: str = ""
    """The instance that nobody reaches; empty: none."""
    course: list[tuple[str, int]] = field(default_factory=list)
    """Step and stage, at each change."""

    def take(self, *events: Event) -> None:
        """Plan these, and commit."""
        self.session.save_changes(plan_batch(events, self.session, POLICY, self.now), ())

    def look(self) -> None:
        """At the rollout. Whoever does it again finds what a process that ended has left."""
        if self.crashes:
            with closing(DatabaseSession(self.database.planner_url, ENGINES)) as ending:
                changes = plan_batch([LOOK], ending, POLICY, self.now)
                if self.crashes == "before":
                    ending.write_changes(changes, ())
                else:
                    ending.save_changes(changes, ())
        self.take(LOOK)

    def order(self, order: Order) -> None:
        """One that an operator gives."""
        self.take(Event(FleetOrder(uuid4(), "ada", self.now, order), 0, ""))

    def tell(self) -> None:
        """Of both instances, by their agents."""
        healthy = EngineHealth(
            *("Healthy", "", "", "", self.now),
            applications=TENANTS,
            tenants=TENANTS,
            comparison_p95_ms=30_000,
            sync_p95_ms=1_000,
        )
        failing = replace(healthy, comparison_errors=self.failing, failing_tenants=self.failing)
        told = {
            name: replace(failing if name == NEW else healthy, version=version) for name, version in VERSIONS.items()
        }
        if self.lost:
            told[self.lost] = EngineHealth("Down", "ApiFailing", "", "", self.now)
        self.take(*(Event(Observation("", "", name, "", "", self.now, each), 0, "") for name, each in told.items()))

    def live(self) -> Rollout:
        """A minute: agents tell, planners look, moves come to their ends."""
        self.tell()
        self.look()
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

    def go_back_between_looks(self) -> None:
        """To a second after the last look, when the next is not due."""
        self.now += timedelta(seconds=1) - EVERY

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
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, OLD, "argocd-old")
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        made = Fleet(database, session)
        made.take(*(changed(1, namespace=f"team-{number}", uid=f"uid-{number}") for number in range(TENANTS)))
        with psycopg.connect(database.owner_url) as owner:
            add_instance(owner, NEW, "argocd-new")
        session.refresh_fleet()
        for _ in range(3):
            made.tell()
            made.now += EVERY
        yield made


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
    fleet.failing = TENANTS
    over = fleet.until("failed")
    assert over.reason.startswith("at 100 %: engine instance new: Applications of 24.0 of 24.0 tenants fail")
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


def test_instance_when_no_gate_has_looked_at_its_release_then_it_takes_tenants_only_where_no_other_does(
    fleet: Fleet,
) -> None:
    """Its ring waits for its turn; and then the rollout is aborted, and the old one drained."""

    def taking() -> set[str]:
        known = fleet.session.fleet.instances
        assert known.keys() == {"first", OLD, NEW}
        return {each for each in (OLD, NEW) if known[each].accepting}

    with psycopg.connect(fleet.database.owner_url) as owner:
        add_instance(owner, "first", "argocd-first")
        owner.execute("UPDATE engine_instances SET ring = 'canary' WHERE id = 'first'")
    fleet.session.refresh_fleet()
    assert taking() == {OLD, NEW}
    fleet.order(START)
    assert taking() == {OLD}
    fleet.order(AbortRollout())
    assert taking() == {OLD}
    fleet.order(DrainEngineInstance(OLD))
    fleet.session.refresh_fleet()  # as each planner does every ten seconds
    assert taking() == {NEW}


@pytest.mark.parametrize("is_aborted", [True, False], ids=["left of a rollout", "waiting for one"])
def test_tenants_when_no_gate_has_looked_at_a_release_then_neither_relief_nor_a_rebalance_brings_them_to_it(
    fleet: Fleet, *, is_aborted: bool
) -> None:
    """The other instance of the ring carries too much, and the one of the release nothing."""

    def targets() -> list[tuple[object, ...]]:
        fleet.session.refresh_fleet()
        for _ in range(2):
            fleet.take(Event(ScalingDue(), 0, ""))
            fleet.now += 2 * POLICY.scaling.overload
        fleet.order(RebalanceFleet())
        return fleet.rows("SELECT DISTINCT actor, target FROM moves ORDER BY 1")

    with psycopg.connect(fleet.database.owner_url) as owner:
        add_instance(owner, "first", "argocd-first")
        owner.execute("UPDATE engine_instances SET ring = 'canary', capacity = 1 WHERE id = 'first'")
        owner.execute("UPDATE engine_instances SET capacity = %s WHERE id = %s", (TENANTS + 1, OLD))
    fleet.order(START)
    if is_aborted:
        fleet.order(AbortRollout())
    with psycopg.connect(fleet.database.planner_url) as planner:
        assert load_closed(planner) == {NEW}
        assert load_fleet_rows(planner, ENGINES).closed == {NEW}
    assert targets() == []
    with psycopg.connect(fleet.database.owner_url) as owner:
        owner.execute("DELETE FROM rollouts")
        assert load_closed(owner) == frozenset()
    assert targets() == [("ada", NEW), ("planner", NEW)]


def test_rollout_when_it_waits_or_is_over_then_it_is_looked_at_when_due_and_counted_and_forgotten(fleet: Fleet) -> None:
    fleet.order(START)
    with psycopg.connect(fleet.database.planner_url) as planner:
        assert not is_rollout_due(planner, fleet.now)
        assert is_rollout_due(planner, fleet.now + timedelta(seconds=5))
        assert rollout_states(planner, fleet.now)["running"] == 1
        assert rollout_states(planner, fleet.now + STALLED_AFTER)["stalled"] == 1
    fleet.order(AbortRollout())
    with psycopg.connect(fleet.database.planner_url) as planner:
        assert not is_rollout_due(planner, fleet.now + timedelta(days=1))
        assert rollout_states(planner, fleet.now)["aborted"] == 1
        assert sum(rollout_states(planner, fleet.now + timedelta(days=2)).values()) == 0
        assert (delete_rollouts(planner, at(0)), delete_rollouts(planner, fleet.now + EVERY)) == (0, 1)
        assert delete_samples(planner, fleet.now, 4) == 4
        assert delete_samples(planner, fleet.now, 4) == 2


def test_baseline_when_new_instances_are_waited_for_then_it_is_of_the_hour_before_the_first_tenant_moves(
    fleet: Fleet,
) -> None:
    def resize(capacity: int) -> None:
        with psycopg.connect(fleet.database.owner_url) as owner:
            owner.execute("UPDATE engine_instances SET capacity = %s WHERE id = %s", (capacity, NEW))

    fleet.order(START)
    resize(TENANTS - 1)
    assert fleet.live().step == "provisioning"
    for _ in range(90):
        fleet.tell()
        fleet.now += EVERY
    assert fleet.live().step == "provisioning"
    resize(2500)
    fleet.until("moving")
    assert fleet.rows("SELECT baseline::json ->> 'samples' FROM rollouts") == [("60",)]


def test_rollout_when_aborted_between_two_looks_then_every_tenant_is_back(fleet: Fleet) -> None:
    fleet.order(START)
    while fleet.live().stage < 100:
        pass
    fleet.until("soaking")
    fleet.go_back_between_looks()
    fleet.order(AbortRollout())
    fleet.until("aborted")
    assert fleet.rows(PLACES) == [(OLD, TENANTS)]
    assert fleet.rows(STATES) == [(NEW, "drained"), (OLD, "accepting")]


def test_rollout_when_aborted_and_its_old_instance_is_lost_then_it_ends_after_a_while_and_the_new_one_takes_tenants(
    fleet: Fleet,
) -> None:
    fleet.order(START)
    fleet.until("soaking")
    fleet.order(AbortRollout())
    assert fleet.rows(STATES) == [(NEW, "draining"), (OLD, "accepting")]
    fleet.lost = OLD
    fleet.live()
    assert fleet.live().step == "reverting"
    assert fleet.rows(STATES) == [(NEW, "accepting"), (OLD, "accepting")]
    fleet.now += STALLED_AFTER
    over = fleet.live()
    assert over.step == "aborted"
    assert "left as it is: tenants on new instances: 2, on their way: 0" in over.reason
    assert fleet.rows(PLACES) == [(NEW, 2), (OLD, TENANTS - 2)]
    assert fleet.rows(STATES) == [(NEW, "accepting"), (OLD, "accepting")]


def test_rollout_when_paused_and_resumed_between_two_looks_then_no_stage_is_left_out_and_every_tenant_has_moved(
    fleet: Fleet,
) -> None:
    fleet.order(START)
    fleet.until("moving")
    fleet.go_back_between_looks()
    fleet.order(PauseRollout())
    fleet.order(ResumeRollout())
    assert fleet.rows("SELECT step, stage FROM rollouts") == [("moving", 1)]
    fleet.until("done")
    assert fleet.course == COURSE
    assert fleet.rows(PLACES) == [(NEW, TENANTS)]
    assert fleet.rows(MOVES) == [(NEW, TENANTS, TENANTS)]


def test_look_when_at_a_rollout_then_nothing_is_counted_or_decided_of_instances_of_other_rings(fleet: Fleet) -> None:
    with psycopg.connect(fleet.database.owner_url) as owner:
        add_instance(owner, "other", "argocd-other")
        owner.execute("UPDATE engine_instances SET ring = 'early', state = 'draining' WHERE id = 'other'")
    fleet.order(replace(START, rings=("general",)))
    with psycopg.connect(fleet.database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'draining' WHERE id = 'other'")
    fleet.look()
    assert ("other", "draining") in fleet.rows(STATES)
    fleet.take(Event(FleetDue(), 0, ""))
    assert ("other", "drained") in fleet.rows(STATES)
