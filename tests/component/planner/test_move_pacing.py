"""Whether changes of others wait, by the audit in PostgreSQL, and whether a move may begin then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from prometheus_client import REGISTRY

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.connection import OPTIONS
from services.planner.database.move_queries import (
    COMPLETED_WITHIN,
    LATENCIES,
    LONGEST_WAIT,
    is_move_due,
    measure_latencies,
)
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.fleet.moves.move_orders import begin_moves
from services.planner.domain.fleet.moves.pace import STALLED_AFTER, Latency, Pace, is_waited
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import MovePath, MoveStep
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at

NOW = at(1000)
WAIT = timedelta(seconds=1)
SLOW, QUICK = timedelta(seconds=2), timedelta(milliseconds=20)
TENANTS = 40
"""Who change something; of them two are one in twenty, and three are more."""
GONE = UUID(int=0)
"""A deployment that there is no row of."""
NORTH = "INSERT INTO engine_clusters VALUES ('north', '', now(), 'active', now())"
TENANT = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
VALUES (%(id)s, 'local', %(namespace)s, 0, %(instance)s)
"""
MOVE = """
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since, path)
VALUES (%(id)s, %(id)s, 'local', %(namespace)s, 0, %(source)s, %(target)s, %(step)s, false, '{}', '', 'ada', %(since)s,
        %(since)s, %(path)s)
"""
CHANGE = """
INSERT INTO audit_records (id, deployment_id, workspace, namespace, kind, name, generation, action, actor, state,
                           message, trace_id, created_at, updated_at)
VALUES (gen_random_uuid(), %(deployment)s, 'local', %(namespace)s, %(kind)s, 'a', 1, %(action)s, '', %(state)s,
        %(message)s, '', %(seen)s, %(ended)s)
"""
LARGE_AUDIT = """
INSERT INTO audit_records (id, deployment_id, workspace, namespace, kind, name, generation, action, actor, state,
                           message, trace_id, created_at, updated_at)
SELECT gen_random_uuid(), gen_random_uuid(), 'local', number %% 1000, 'GitOpsDeployment', 'a', 1, 'update', '',
       'Completed', '', '', %(now)s::timestamptz - number * interval '10 s', now()
  FROM generate_series(%(count)s, 1, -1) AS number
"""
MANY_MOVES = """
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since)
SELECT gen_random_uuid(), gen_random_uuid(), 'local', number, 0, 'one', 'two', 'done', false, '{}', '', 'ada',
       %(now)s::timestamptz - number * interval '10 s', %(now)s::timestamptz - number * interval '10 s'
  FROM generate_series(%(count)s, 1, -1) AS number
"""
DEPLOYMENT = """
INSERT INTO deployments (id, tenant_id, source, name, uid, resource_version, generation, epoch, present, deleting,
                         finalizer, error, seen_at, trace_id)
VALUES (%(id)s, %(tenant)s, 'local', 'a', %(id)s, '1', 1, 0, true, false, false, '', now(), '')
"""


@dataclass
class Fleet:
    """Two instances in the default engine cluster, one in ``north``, and what their tenants do."""

    owner: psycopg.Connection[Any]
    numbers: Iterator[int]

    def add_tenant(self, instance: str = "one") -> str:
        """Its namespace."""
        number = next(self.numbers)
        self.owner.execute(TENANT, {"id": UUID(int=number), "namespace": str(number), "instance": instance})
        return str(number)

    def add_move(self, tenant: str, step: MoveStep, *, since: datetime = NOW, path: MovePath = "whole") -> None:
        given = {"id": UUID(int=int(tenant)), "namespace": tenant, "step": step, "since": since, "path": path}
        self.owner.execute(MOVE, {**given, "source": "one", "target": "two"})

    def add_change(
        self,
        tenant: str,
        took: timedelta,
        *,
        kind: str = GITOPS_DEPLOYMENT.kind,
        action: str = "update",
        state: str = "Completed",
        message: str = "",
        ended: datetime = NOW,
        deployment: UUID = GONE,
    ) -> None:
        """One that ended now, or waits still."""
        given = {"namespace": tenant, "kind": kind, "action": action, "state": state, "message": message}
        seen = {"seen": ended - took, "ended": ended, "deployment": deployment}
        self.owner.execute(CHANGE, {**given, **seen})

    def are_waiting(self) -> bool:
        return is_waited(measure_latencies(self.owner, NOW, WAIT))


@pytest.fixture
def fleet(database: Database) -> Iterator[Fleet]:
    """In which a move waits to begin, and quick changes were made by all tenants but three."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        add_instance(owner, "one", "argocd")
        add_instance(owner, "two", "argocd-2")
        add_instance(owner, "three", "argocd-3")
        owner.execute(NORTH)
        owner.execute("UPDATE engine_instances SET engine_cluster = 'north' WHERE id = 'three'")
        fleet = Fleet(owner, count(1))
        fleet.add_move(fleet.add_tenant(), "ordered")
        for _ in range(TENANTS - 3):
            fleet.add_change(fleet.add_tenant(), QUICK)
        yield fleet


@pytest.mark.parametrize(("others", "are_waiting"), [(0, True), (20, True), (21, False)])
def test_changes_when_more_than_one_tenant_in_twenty_waits_for_long_then_they_wait(
    fleet: Fleet, others: int, *, are_waiting: bool
) -> None:
    for _ in range(3):
        fleet.add_change(fleet.add_tenant(), SLOW)
    for _ in range(others - 1):  # with twenty of them three are one in twenty, and of one less they are more
        fleet.add_change(fleet.add_tenant(), QUICK)
    assert fleet.are_waiting() == are_waiting


def test_changes_when_those_of_one_engine_cluster_wait_then_it_does_not_matter_how_many_others_there_are(
    fleet: Fleet,
) -> None:
    for _ in range(3):
        assert not fleet.are_waiting(), "two may keep their own changes waiting"
        fleet.add_change(fleet.add_tenant("three"), SLOW)
    assert fleet.are_waiting()


def test_changes_when_all_of_this_is_late_by_minutes_then_they_wait_all_the_same(fleet: Fleet) -> None:
    """A planner that is far behind hears of no change that is new."""
    fleet.owner.execute("DELETE FROM audit_records")
    for _ in range(3):
        fleet.add_change(fleet.add_tenant(), LONGEST_WAIT - timedelta(seconds=1))
    assert fleet.are_waiting()


OTHERS: dict[str, tuple[dict[str, Any], bool]] = {
    "it has ended": ({}, True),
    "it has not ended yet": ({"state": "Waiting"}, True),
    "it ended long ago": ({"ended": NOW - COMPLETED_WITHIN}, False),
    "it waits for room": ({"state": "Waiting", "message": "QuotaExceeded: 50 of 50 deployments"}, False),
    "it was refused": ({"state": "Failed", "message": "the repository needs a login"}, False),
    "it was refused, and replaced": ({"message": "superseded by generation 2"}, False),
    "it removes what was deployed": ({"action": "delete"}, False),
    "it is of what is checked": ({"kind": "GitOpsDeploymentRepositoryCredential"}, False),
}


@pytest.mark.parametrize(("change", "counts"), OTHERS.values(), ids=[*OTHERS])
def test_changes_when_they_take_long_then_those_count_that_wait_for_nobody_but_us(
    fleet: Fleet, change: dict[str, Any], *, counts: bool
) -> None:
    for _ in range(3):
        fleet.add_change(fleet.add_tenant(), SLOW, **change)
    assert fleet.are_waiting() == counts


def test_changes_when_they_wait_for_an_environment_then_they_do_not_count(fleet: Fleet) -> None:
    for number in range(3):
        tenant, deployment = fleet.add_tenant(), UUID(int=1000 + number)
        fleet.owner.execute(DEPLOYMENT, {"id": deployment, "tenant": UUID(int=int(tenant)), "namespace": tenant})
        fleet.add_change(tenant, SLOW, state="Waiting", deployment=deployment)
    assert fleet.are_waiting()
    fleet.owner.execute("UPDATE deployments SET pending_spec = '{}'")
    assert not fleet.are_waiting()


def test_changes_when_a_tenant_makes_many_then_it_counts_by_the_quickest(fleet: Fleet) -> None:
    for _ in range(3):
        tenant = fleet.add_tenant()
        for took in (SLOW, QUICK, SLOW):
            fleet.add_change(tenant, took)
    assert not fleet.are_waiting()


@pytest.mark.parametrize(
    ("step", "path", "since"),
    [
        ("pausing", "whole", NOW - timedelta(hours=1)),
        ("done", "whole", NOW - timedelta(seconds=1)),
        ("ordered", "forced", NOW),
    ],
)
def test_changes_when_who_makes_them_is_moved_or_was_just_now_then_they_do_not_count(
    fleet: Fleet, step: MoveStep, path: MovePath, since: datetime
) -> None:
    for _ in range(3):
        tenant = fleet.add_tenant()
        fleet.add_change(tenant, SLOW)
        fleet.add_move(tenant, step, since=since, path=path)
    assert not fleet.are_waiting()
    before = NOW - COMPLETED_WITHIN - timedelta(seconds=1)
    fleet.owner.execute("UPDATE moves SET step = 'done', step_since = %s WHERE id <> %s", (before, UUID(int=1)))
    assert fleet.are_waiting()


def test_changes_when_their_instance_is_down_then_they_do_not_count(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.add_change(fleet.add_tenant("three"), SLOW, state="Waiting")
    assert fleet.are_waiting()
    fleet.owner.execute("UPDATE engine_instances SET health = 'Down' WHERE id = 'three'")
    assert not fleet.are_waiting()


def test_changes_when_those_of_a_part_are_on_an_instance_that_is_down_then_they_do_not_count(fleet: Fleet) -> None:
    for number in range(3):
        tenant, deployment = fleet.add_tenant(), UUID(int=1000 + number)
        fleet.owner.execute(DEPLOYMENT, {"id": deployment, "tenant": UUID(int=int(tenant)), "namespace": tenant})
        fleet.add_change(tenant, SLOW, state="Waiting", deployment=deployment)
    fleet.owner.execute("UPDATE deployments SET engine_instance_id = 'three'")
    assert fleet.are_waiting()
    fleet.owner.execute("UPDATE engine_instances SET health = 'Down' WHERE id = 'three'")
    assert not fleet.are_waiting()


@pytest.mark.parametrize(("step", "path"), [("done", "whole"), ("preparing", "forced"), ("ordered", "forced")])
def test_changes_when_no_move_is_under_way_that_would_give_way_then_nobody_asks(
    fleet: Fleet, step: MoveStep, path: MovePath
) -> None:
    assert measure_latencies(fleet.owner, NOW, WAIT) == [Latency(TENANTS - 3, 0)]
    fleet.owner.execute("UPDATE moves SET step = %s, path = %s", (step, path))
    assert measure_latencies(fleet.owner, NOW, WAIT) == []


PLACES: dict[str, tuple[int, timedelta, MovePath, tuple[str, str], bool]] = {
    "all": (5, timedelta(), "whole", ("one", "two"), True),
    "one, which is taken": (1, timedelta(), "whole", ("one", "two"), False),
    "one, which is taken of the source": (1, timedelta(), "whole", ("one", "three"), False),
    "one, which is taken of the target": (1, timedelta(), "whole", ("three", "two"), False),
    "one, taken by a move that has stalled": (1, STALLED_AFTER, "whole", ("one", "two"), True),
    "two": (2, timedelta(), "whole", ("one", "two"), True),
    "one, and nobody waits for the source": (1, timedelta(), "forced", ("one", "two"), True),
}


@pytest.mark.parametrize(("paced", "stands", "path", "taken", "is_due"), PLACES.values(), ids=[*PLACES])
def test_move_when_moves_give_way_then_it_is_due_if_it_begins_by_the_rules(
    fleet: Fleet,
    database: Database,
    paced: int,
    stands: timedelta,
    path: MovePath,
    taken: tuple[str, str],
    *,
    is_due: bool,
) -> None:
    other = fleet.add_tenant()
    fleet.add_move(other, "preparing", since=NOW - stands)
    fleet.owner.execute("UPDATE moves SET source = %s, target = %s WHERE namespace = %s", (*taken, other))
    fleet.owner.execute("UPDATE moves SET path = %s", (path,))
    assert is_move_due(fleet.owner, NOW, 5, paced) == is_due
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        rows = replace(session.fleet_reader.load_fleet_rows((), (), ()), pace=Pace(paced, NOW))
        session.abandon_transaction()
    assert (begin_moves(rows, NOW, 5) is not rows) == is_due


WITHDRAWING: dict[str, tuple[MovePath, str, str, bool]] = {
    "of a source that works": ("whole", "Healthy", "", False),
    "of a source that is down, and withdraws": ("whole", "Down", "ControllerNotReady", False),
    "of a source that is out of reach": ("whole", "Down", "ApiFailing", True),
    "of a source of which nobody says anything": ("whole", "Unknown", "AgentSilent", True),
    "of a source that went out of reach while it was evacuated": ("forced", "Down", "Closed", True),
    "of a source that was out of reach": ("fenced", "Healthy", "", True),
}


@pytest.mark.parametrize(("path", "health", "reason", "is_due"), WITHDRAWING.values(), ids=[*WITHDRAWING])
def test_move_when_another_has_only_to_withdraw_then_it_is_due_if_it_begins_by_the_rules(
    fleet: Fleet, database: Database, path: MovePath, health: str, reason: str, *, is_due: bool
) -> None:
    other = fleet.add_tenant("two")
    fleet.add_move(other, "withdrawing", path=path)
    fleet.owner.execute("UPDATE moves SET source = 'three' WHERE namespace = %s", (other,))
    told = InstanceHealth("three", 0, health, reason, "", "", None, NOW, NOW, None)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        session.save_changes(BatchChanges(other=Changes(engine_health=(told,))), ())
        rows = session.fleet_reader.load_fleet_rows((), (), ())
        session.abandon_transaction()
    assert is_move_due(fleet.owner, NOW, 1, 1) == is_due
    assert (begin_moves(rows, NOW, 1) is not rows) == is_due


def test_pace_when_a_planner_looks_then_the_fleet_and_the_metric_say_whether_moves_give_way(
    fleet: Fleet, database: Database
) -> None:
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        planner: Any = SimpleNamespace(
            clock=SimpleNamespace(now=lambda: NOW), policy=Policy(), session=session,
            consumer=SimpleNamespace(fleet_partition=0), apply_due_events=lambda events: None,
        )  # fmt: skip

        def looked() -> tuple[Pace | None, float | None]:
            PeriodicTasks(timedelta(days=1))._look_at_moves(planner)
            pace = session.fleet_reader.load_fleet_rows((), (), ()).pace
            session.abandon_transaction()
            return pace, REGISTRY.get_sample_value("gitops_moves_giving_way")

        assert looked() == (None, 0.0)
        for _ in range(3):
            fleet.add_change(fleet.add_tenant(), SLOW)
        assert looked() == (Pace(1, NOW), 1.0)
        planner.consumer.fleet_partition = None
        assert looked()[1] == 0.0, "another planner decides"


def test_changes_when_the_audit_and_former_moves_are_many_then_only_what_is_new_is_read(
    fleet: Fleet, database: Database
) -> None:
    """By a planner's connection, whose plans are made for no particular values.

    Not by ``rows_read``: what a block range index has PostgreSQL look through is not in its statistics.
    """
    fleet.owner.execute(LARGE_AUDIT, {"count": 100_000, "now": NOW})
    fleet.owner.execute(MANY_MOVES, {"count": 20_000, "now": NOW})
    fleet.owner.execute("SELECT brin_summarize_new_values('audit_records_created_at_idx')")
    fleet.owner.execute("ANALYZE")
    with psycopg.connect(database.owner_url, options=OPTIONS) as planner:
        planner.execute(f"PREPARE latencies({', '.join(GIVEN.values())}) AS {LATENCIES % NUMBERED}")
        values = ", ".join(f"'{each}'" for each in (*(NOW + each for each in AROUND), WAIT))
        ((plan,),) = planner.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE latencies({values})").fetchall()
    for table, most in (("audit_records", 10_000), ("moves", 1_000)):
        assert 0 < sum(map(_rows_read, _nodes(plan, table))) < most


GIVEN = {
    "now": "timestamptz",
    "since": "timestamptz",
    "earliest": "timestamptz",
    "latest": "timestamptz",
    "wait": "interval",
}
NUMBERED = {name: f"${number}" for number, name in enumerate(GIVEN, start=1)}
AROUND = (timedelta(), -COMPLETED_WITHIN, -LONGEST_WAIT, LONGEST_WAIT)


def _nodes(plan: Any, table: str) -> Iterator[dict[str, Any]]:
    """Those of a plan that read the table."""
    match plan:
        case list():
            for each in plan:
                yield from _nodes(each, table)
        case dict():
            if plan.get("Relation Name") == table:
                yield plan
            yield from _nodes([*plan.get("Plans", []), *([plan["Plan"]] if "Plan" in plan else [])], table)


def _rows_read(node: dict[str, Any]) -> float:
    removed = sum(rows for key, rows in node.items() if key.startswith("Rows Removed by"))
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])
