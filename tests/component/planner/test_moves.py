"""Rows of moves in PostgreSQL, and two planners that meet at one: of the fleet's orders, and of the tenant."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from prometheus_client import REGISTRY

from services.common.errors import Retry
from services.common.kafka import TopicPartition
from services.common.messages import (
    CancelMove,
    Checked,
    DrainEngineInstance,
    EngineHealth,
    FleetOrder,
    MoveTenant,
    Observation,
    Order,
    RebalanceFleet,
    RebalanceInstances,
    namespace_digest,
)
from services.planner.database.fleet_queries import load_all_tenants, load_counted_fleet, load_tenants_on
from services.planner.database.move_queries import count_unmoved, delete_moves, find_due_moves, is_move_due, move_ages
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges, Changes, TenantPart
from services.planner.domain.events import Event, FleetDue, MoveDue
from services.planner.domain.fleet.rows import Move, MovePath, MoveStep
from services.planner.domain.policy import Policy
from services.planner.engines.argocd.load import LOADS
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.test_fleet import DEADLINE_SECONDS, await_lock
from tests.unit.planner.given import (
    NAMESPACE,
    WORKSPACE,
    at,
    changed,
    environment,
    in_namespace,
    observed,
    secret,
    spec,
)

NAME = (WORKSPACE, NAMESPACE)
AT_ONCE = Policy().moves_at_once
LOAD = LOADS["Application"] + LOADS["AppProject"]
"""Of what each tenant here has."""


@pytest.fixture
def sessions(database: Database) -> Iterator[tuple[DatabaseSession, DatabaseSession]]:
    """Of a planner that decides on the fleet, and of the one that has the only tenant, who has one deployment."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "one", "argocd")
        add_instance(owner, "two", "argocd-2")
    with ExitStack() as closing_all:
        fleet, tenants = (
            closing_all.enter_context(closing(DatabaseSession(database.planner_url, ENGINES))) for _ in range(2)
        )
        tenants.save_changes(planned(tenants, changed(1)), ())
        yield fleet, tenants


def planned(session: DatabaseSession, *events: Event) -> BatchChanges:
    return plan_batch(events, session, Policy(), at(1000))


def order(session: DatabaseSession, number: int, given: Order) -> None:
    session.save_changes(planned(session, Event(FleetOrder(UUID(int=number), "ada", at(number), given), 0, "")), ())


def state_of(session: DatabaseSession) -> tuple[str, Move | None, set[str]]:
    """Where the tenant is, its move, and the kinds of what the other instance of that holds."""
    (state,) = session.load_tenants([NAME]).tenants[NAME]
    return state.tenant.engine_instance_id, state.move, {kind for kind, _ in state.elsewhere}


def moved(fleet: DatabaseSession, tenants: DatabaseSession) -> Move:
    """The tenant's move as it is once its planner has begun with it."""
    here, *_ = state_of(tenants)
    order(fleet, 2, MoveTenant(*NAME, "one" if here == "two" else "two"))
    with tenants.connection() as connection:
        events = find_due_moves(connection, at(1001), [0], 10)
    tenants.save_changes(planned(tenants, *events), ())
    _, move, _ = state_of(tenants)
    assert move is not None
    return move


def test_move_when_ordered_then_the_planner_of_the_tenant_takes_it_up_and_the_next_one_finds_it(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    assert (move.step, move.actor, move.partition) == ("preparing", "ada", 0)
    tenants.tenants.forget_tenants()
    assert state_of(tenants) == (move.source, move, {"AppProject"})


def test_target_when_a_tenant_is_on_its_way_then_it_counts_there_too(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    move = moved(*sessions)
    with psycopg.connect(database.owner_url) as owner:
        held = load_counted_fleet(owner, ENGINES).holding(move.target)
    assert (held.tenants, held.deployments, held.objects) == (1, 1, True)
    sessions[0].refresh_fleet()
    assert sessions[0].load_tenants([NAME]).fleet.load == {move.source: LOAD, move.target: LOAD}


def test_source_when_the_move_that_leaves_it_is_not_over_then_it_is_not_empty(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    """Were it retired then, the planner of the tenant would not find it."""
    move = moved(*sessions)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("DELETE FROM engine_resources")
        owner.execute("UPDATE tenants SET engine_instance_id = %s", (move.target,))
        owner.execute("UPDATE moves SET step = 'withdrawing'")
        assert load_counted_fleet(owner, ENGINES).holding(move.source).tenants == 1


NORTH = """
WITH north AS (INSERT INTO engine_clusters VALUES ('north', '', now(), 'active', now()) RETURNING id)
UPDATE engine_instances SET engine_cluster = north.id FROM north WHERE engine_instances.id = %s
"""


@pytest.fixture
def north(sessions: tuple[DatabaseSession, DatabaseSession], database: Database) -> str:
    """The instance that the tenant is not on; it is in another cluster."""
    here, *_ = state_of(sessions[1])
    there = "one" if here == "two" else "two"
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(NORTH, (there,))
    return there


def clusters_of(database: Database, namespace: str, uid: str) -> list[str]:
    """Where the topic says that the tenant is which has this namespace."""
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute(
            "SELECT engine_clusters FROM tenant_clusters WHERE namespace_digest = %s",
            (namespace_digest(WORKSPACE, namespace, uid),),
        )
        return [clusters for (clusters,) in rows]


def add_tenant_elsewhere(sessions: tuple[DatabaseSession, DatabaseSession], database: Database, instance: str) -> None:
    """``team-b``, which may move between clusters, on another instance than this one."""
    fleet, tenants = sessions
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'draining' WHERE id = %s", (instance,))
    fleet.refresh_fleet()
    tenants.refresh_fleet()
    new = in_namespace(("uid-b", 1), secret(1, "login", "repository-credential", namespace="team-b"))
    tenants.save_changes(planned(tenants, *new), ())
    assert clusters_of(database, "team-b", "uid-b") == ["default"]
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'accepting' WHERE id = %s", (instance,))
    fleet.refresh_fleet()
    tenants.refresh_fleet()


def test_clusters_of_a_tenant_when_it_moves_between_two_then_both_are_told_until_the_move_is_over(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, north: str
) -> None:
    fleet, tenants = sessions
    add_tenant_elsewhere(sessions, database, north)
    order(fleet, 2, MoveTenant(WORKSPACE, "team-b", north))
    steps = []
    for second in range(1, 20):
        with tenants.connection() as connection:
            events = find_due_moves(connection, at(1000 + 10 * second), [0], 10)
        tenants.save_changes(plan_batch(events, tenants, Policy(), at(1000 + 10 * second)), ())
        with psycopg.connect(database.owner_url) as owner:
            (step,) = owner.execute("SELECT step FROM moves").fetchone() or ("",)
        steps.append(step)
        assert clusters_of(database, "team-b", "uid-b") == ["north" if step == "done" else "default,north"]
        if step == "done":
            break
    assert steps[-1] == "done"


def test_clusters_of_a_tenant_when_its_move_ends_before_it_begins_then_nothing_is_ever_sealed_for_the_target(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, north: str
) -> None:
    """No planner of the tenant hears of that, and would take the target back."""
    fleet, tenants = sessions
    add_tenant_elsewhere(sessions, database, north)

    def told() -> list[str]:
        tenants.claim_partitions([TopicPartition("gitops.commands", 0)])
        return clusters_of(database, "team-b", "uid-b")

    order(fleet, 2, MoveTenant(WORKSPACE, "team-b", north))
    assert told() == ["default,north"], "it has begun"
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE moves SET step = 'ordered'")
    assert told() == ["default"]
    order(fleet, 3, CancelMove(WORKSPACE, "team-b"))
    with psycopg.connect(database.owner_url) as owner:
        assert owner.execute("SELECT step FROM moves").fetchall() == [("cancelled",)]
    assert clusters_of(database, "team-b", "uid-b") == ["default"]


def test_clusters_of_tenants_when_a_planner_of_before_has_told_none_then_the_next_one_tells_them_at_its_start(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("DELETE FROM tenant_clusters")
    sessions[1].claim_partitions([TopicPartition("gitops.commands", 0)])
    assert clusters_of(database, NAMESPACE, "") == ["default"]


def test_order_when_it_is_to_another_cluster_than_a_deployment_goes_to_then_it_is_refused(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, north: str
) -> None:
    order(sessions[0], 2, MoveTenant(*NAME, north))
    with psycopg.connect(database.owner_url) as owner:
        (outcome,) = owner.execute("SELECT outcome, message FROM fleet_orders").fetchall()
    assert outcome[0] == "refused"
    assert "1 Applications of the tenant are deployed to that of its own, default" in outcome[1]


def test_rows_when_the_target_is_in_another_cluster_then_each_is_streamed_to_its_instances(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, north: str
) -> None:
    fleet, tenants = sessions
    (state,) = tenants.load_tenants([NAME]).tenants[NAME]
    source = state.tenant.engine_instance_id
    move = Move(
        id=UUID(int=2), tenant_id=state.tenant.id, workspace=WORKSPACE, namespace=NAMESPACE, partition=0, source=source,
        target=north, step="reserved", is_cancelled=False, reported="{}", message="", actor="ada", ordered_at=at(2),
        step_since=at(2), due_at=at(2),
    )  # fmt: skip
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(move,))), ())
    with tenants.connection() as connection:
        events = find_due_moves(connection, at(1001), [0], 10)
    tenants.save_changes(planned(tenants, *events), ())
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT DISTINCT engine_instance_id, engine_cluster FROM engine_resources").fetchall()
    assert set(rows) == {(source, "default"), (north, "north")}


def test_move_when_its_target_goes_down_then_it_is_due_and_goes_back(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    target = moved(fleet, tenants).target
    health = EngineHealth("Down", "ApiFailing", "no answer", "", None)
    told = Event(Observation("", "", target, "", "", at(3), health), 7, "")
    with fleet.connection() as connection:
        assert not is_move_due(connection, at(1001), AT_ONCE, AT_ONCE)
    fleet.save_changes(planned(fleet, told), ())
    with fleet.connection() as connection:
        assert is_move_due(connection, at(1001), AT_ONCE, AT_ONCE)
    fleet.save_changes(planned(fleet, Event(FleetDue(), 0, "")), ())
    tenants.tenants.forget_tenants()
    _, move, _ = state_of(tenants)
    assert move is not None
    assert (move.is_cancelled, move.message) == (True, f"engine instance {target} is down: no answer")


def test_fleet_when_rebalanced_then_tenants_of_a_draining_instance_move_and_each_is_counted_with_its_objects(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    here, *_ = state_of(tenants)
    there = "one" if here == "two" else "two"
    (known,) = fleet.fleet_reader.load_all_tenants().values()
    assert (known.engine_instance_id, known.deployments, known.of_engine_cluster, known.load) == (here, 1, 1, LOAD)
    order(fleet, 2, RebalanceFleet())
    order(fleet, 3, DrainEngineInstance(here))
    order(fleet, 4, RebalanceInstances((there,)))
    order(fleet, 5, RebalanceInstances((here,)))
    order(fleet, 6, RebalanceFleet())
    with psycopg.connect(database.owner_url) as owner:
        outcomes = owner.execute("SELECT kind, outcome, message FROM fleet_orders ORDER BY ordered_at").fetchall()
        moves = owner.execute("SELECT source, target, step, tenant_id FROM moves").fetchall()
    assert outcomes == [
        ("RebalanceFleet", "unchanged", "each instance carries what it should"),
        (
            "DrainEngineInstance",
            "accepted",
            "its tenants stay on it (1) until 'gitopsctl engines rebalance' moves them",
        ),
        ("RebalanceInstances", "unchanged", "each instance that is named carries what it should"),
        ("RebalanceInstances", "accepted", "tenants that move: 1 of 1"),
        (
            "RebalanceFleet",
            "unchanged",
            "each instance will carry what it should: 1 are being moved, as 'gitopsctl engines moves' shows",
        ),
    ]
    assert moves == [(here, there, "reserved", known.id)]
    with tenants.connection() as connection:
        events = find_due_moves(connection, at(1001), [0], 10)
    tenants.save_changes(planned(tenants, *events), ())
    assert state_of(tenants)[1].step == "preparing"


def test_move_when_cancelled_while_its_planner_takes_the_step_of_no_return_then_that_is_not_taken(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    order(fleet, 3, CancelMove(*NAME))
    late = BatchChanges(other=Changes(moves=(replace(move, step="releasing"),)))
    with pytest.raises(Retry, match="cancelled meanwhile"):
        tenants.save_changes(late, ())
    with tenants.connection() as connection:
        (event,) = find_due_moves(connection, at(1001), [0], 10)
    tenants.save_changes(planned(tenants, event), ())
    _, move_now, _ = state_of(tenants)
    assert move_now is not None
    assert (move_now.step, move_now.message) == ("cancelling", "an operator has cancelled it")


def test_move_when_its_source_is_evacuated_while_its_planner_writes_it_then_that_is_known_and_it_is_looked_at(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    forced = replace(move, path="forced", due_at=at(1000))
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(forced,))), ())
    reported = replace(move, reported='{"AppProject/x":["digest","",""]}', due_at=None)
    tenants.save_changes(BatchChanges(other=Changes(moves=(reported,))), ())
    with tenants.connection() as connection:
        (event,) = find_due_moves(connection, at(1001), [0], 10)
    assert event.message == MoveDue(replace(forced, reported=reported.reported))
    tenants.save_changes(planned(tenants, event), ())
    _, now, _ = state_of(tenants)
    assert now is not None
    assert (now.path, now.step) == ("forced", "preparing")


def test_move_when_another_takes_its_place_while_its_planner_writes_it_then_that_one_goes_on(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = replace(moved(fleet, tenants), step="adopting")
    tenants.save_changes(BatchChanges(other=Changes(moves=(move,))), ())
    over = replace(move, step="done", message="its target is down", due_at=None)
    following = replace(
        move, id=UUID(int=8), source=move.target, target=move.source, step="reserved", path="forced", due_at=at(1000)
    )
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(over, following))), ())
    with pytest.raises(Retry):
        tenants.save_changes(BatchChanges(other=Changes(moves=(replace(move, step="withdrawing"),))), ())
    with tenants.connection() as connection:
        (event,) = find_due_moves(connection, at(1001), [0], 10)
    assert event.message == MoveDue(following)


def test_move_when_it_cannot_go_back_any_more_then_the_order_to_cancel_is_refused(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    tenants.save_changes(BatchChanges(other=Changes(moves=(replace(move, step="releasing"),))), ())
    order(fleet, 3, CancelMove(*NAME))
    with psycopg.connect(database.owner_url) as owner:
        outcomes = owner.execute("SELECT kind, outcome FROM fleet_orders ORDER BY ordered_at").fetchall()
        steps = owner.execute("SELECT step, is_cancelled FROM moves").fetchall()
    assert outcomes == [("MoveTenant", "accepted"), ("CancelMove", "refused")]
    assert steps == [("releasing", False)]


def test_move_when_its_planner_is_about_to_take_the_step_of_no_return_then_the_order_to_cancel_waits_and_is_refused(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    tenants.write_changes(BatchChanges(other=Changes(moves=(replace(move, step="releasing"),))), ())
    with ThreadPoolExecutor(1) as thread:
        refusal = thread.submit(planned, fleet, Event(FleetOrder(UUID(int=3), "ada", at(3), CancelMove(*NAME)), 0, ""))
        await_lock(database)
        tenants.save_changes(BatchChanges(), ())
        fleet.save_changes(refusal.result(DEADLINE_SECONDS), ())
    with psycopg.connect(database.owner_url) as owner:
        outcomes = owner.execute("SELECT kind, outcome FROM fleet_orders ORDER BY ordered_at").fetchall()
        steps = owner.execute("SELECT step, is_cancelled FROM moves").fetchall()
    assert outcomes == [("MoveTenant", "accepted"), ("CancelMove", "refused")]
    assert steps == [("releasing", False)]


def test_move_when_it_is_to_be_cancelled_then_its_planner_takes_no_step_until_that_is_written(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    cancelled = planned(fleet, Event(FleetOrder(UUID(int=3), "ada", at(3), CancelMove(*NAME)), 0, ""))
    late = BatchChanges(other=Changes(moves=(replace(move, step="releasing"),)))
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(tenants.save_changes, late, ())
        await_lock(database)
        fleet.save_changes(cancelled, ())
        with pytest.raises(Retry, match="cancelled meanwhile"):
            step.result(DEADLINE_SECONDS)
    assert step_of(database, move) == "preparing"


def test_moves_when_a_batch_about_the_fleet_changes_none_then_their_planners_go_on_with_them_meanwhile(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    unwritten = planned(fleet, Event(FleetDue(), 0, ""))
    tenants.save_changes(BatchChanges(other=Changes(moves=(replace(move, step="releasing"),))), ())
    fleet.save_changes(unwritten, ())
    assert step_of(database, move) == "releasing"


DUE: dict[str, tuple[MoveStep, str, str, bool]] = {
    "it may begin": ("ordered", "accepting", "Healthy", True),
    "its target drains": ("ordered", "draining", "Healthy", True),
    "its target is retired": ("ordered", "retired", "Healthy", True),
    "it waits for a target that is down": ("ordered", "accepting", "Down", False),
    "it has begun": ("preparing", "accepting", "Healthy", False),
    "it has begun, and its target drains": ("preparing", "draining", "Healthy", True),
    "it has begun, and its target is retired": ("preparing", "retired", "Healthy", True),
    "it has begun, and its target is down": ("preparing", "accepting", "Down", True),
    "it cannot go back": ("releasing", "draining", "Down", False),
}


@pytest.mark.parametrize(("step", "state", "health", "is_due"), DUE.values(), ids=[*DUE])
def test_move_when_it_is_under_way_then_the_fleet_is_looked_at_only_if_something_becomes_of_it(
    sessions: tuple[DatabaseSession, DatabaseSession],
    database: Database,
    step: MoveStep,
    state: str,
    health: str,
    is_due: bool,
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE moves SET step = %s", (step,))
        owner.execute("UPDATE engine_instances SET state = %s, health = %s WHERE id = %s", (state, health, move.target))
    with fleet.connection() as connection:
        assert is_move_due(connection, at(1001), AT_ONCE, AT_ONCE) == is_due


@pytest.mark.parametrize(
    ("path", "busy", "is_due"),
    [("whole", "source", False), ("whole", "target", False), ("forced", "source", True), ("forced", "target", False)],
)
def test_move_when_it_waits_for_a_place_then_it_is_due_if_those_instances_have_one_that_are_waited_for(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, path: MovePath, busy: str, is_due: bool
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    there = {"source": move.source, "target": move.target}[busy]
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "three", "argocd-3")
        owner.execute("UPDATE moves SET step = 'ordered', path = %s", (path,))
        for number in range(20, 20 + AT_ONCE):
            owner.execute(TENANT, {"id": UUID(int=number), "namespace": str(number), "instance": there})
    others = [
        replace(move, id=UUID(int=n), tenant_id=UUID(int=n), source=there, target="three", step="preparing")
        for n in range(20, 20 + AT_ONCE)
    ]
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=tuple(others))), ())
    with fleet.connection() as connection:
        assert is_move_due(connection, at(1001), AT_ONCE, AT_ONCE) == is_due
        assert is_move_due(connection, at(1001), AT_ONCE + 1, AT_ONCE + 1)


def test_moves_when_more_are_ordered_than_may_go_on_then_the_next_begins_when_one_is_over(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    first = moved(fleet, tenants)
    waiting = replace(first, id=UUID(int=9), tenant_id=UUID(int=9), step="ordered", ordered_at=at(9), step_since=at(9))
    others = [replace(first, id=UUID(int=n), tenant_id=UUID(int=n)) for n in range(20, 24)]
    with psycopg.connect(database.owner_url) as owner:
        for each in (waiting, *others):
            owner.execute(TENANT, {"id": each.tenant_id, "namespace": str(each.tenant_id), "instance": first.source})
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(waiting, *others))), ())
    look = Event(FleetDue(), 0, "")
    fleet.save_changes(planned(fleet, look), ())
    assert step_of(database, waiting) == "ordered"
    with fleet.connection() as connection:
        assert not is_move_due(connection, at(1001), AT_ONCE, AT_ONCE), "there is no place for it"
    tenants.save_changes(BatchChanges(other=Changes(moves=(replace(others[0], step="done"),))), ())
    with fleet.connection() as connection:
        assert is_move_due(connection, at(1001), AT_ONCE, AT_ONCE)
    fleet.save_changes(planned(fleet, look), ())
    assert step_of(database, waiting) == "reserved"
    with fleet.connection() as connection:
        assert move_ages(connection, at(1010))["reserved"] == 10.0, "it was ordered long before"


TENANT = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
VALUES (%(id)s, 'local', %(namespace)s, 0, %(instance)s)
"""


def step_of(database: Database, move: Move) -> str:
    with psycopg.connect(database.owner_url) as owner:
        row = owner.execute("SELECT step FROM moves WHERE id = %s", (move.id,)).fetchone()
    assert row is not None
    return str(row[0])


def test_moves_when_over_for_long_then_they_are_forgotten_and_others_are_not(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    over = replace(move, id=UUID(int=9), tenant_id=UUID(int=9), step="done")
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(over,))), ())
    with fleet.connection() as connection:
        assert delete_moves(connection, at(1000) + timedelta(days=1), 10) == 1
    assert step_of(database, move) == "preparing"


def test_moves_when_some_went_back_of_late_then_they_are_counted_unless_they_were_cancelled(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    returned = replace(move, step="cancelled", step_since=at(500))
    others = (
        replace(returned, id=UUID(int=11)),
        replace(returned, id=UUID(int=12)),
        replace(returned, id=UUID(int=13), is_cancelled=True),
        replace(returned, id=UUID(int=14), step="done"),
        replace(returned, id=UUID(int=15), step_since=at(399)),
    )
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=others)), ())
    assert fleet.fleet_reader.count_returned_moves(at(400)) == {(move.tenant_id, move.target): 2}


def test_evacuations_when_asked_for_then_they_are_the_instances_of_late_that_a_tenant_may_have_made_ill(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    come = replace(move, path="forced", evacuated_for="HeartbeatLost", step="done", step_since=at(500))
    others = (
        replace(come, id=UUID(int=11)),
        replace(come, id=UUID(int=12)),
        replace(come, id=UUID(int=13), tenant_id=UUID(int=9), source=move.target, evacuated_for="ControllerNotReady"),
        replace(come, id=UUID(int=14), namespace="b", step="adopting", tenant_id=UUID(int=14)),
        replace(come, id=UUID(int=15), namespace="c", evacuated_for="ApiFailing"),
        replace(come, id=UUID(int=16), namespace="d", evacuated_for=""),
        replace(come, id=UUID(int=17), namespace="e", step="cancelled"),
        replace(come, id=UUID(int=18), namespace="f", step_since=at(399)),
    )
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=others)), ())
    assert fleet.fleet_reader.load_evacuations(at(400), at(600)) == {
        NAME: {move.source, move.target},
        (WORKSPACE, "b"): {move.source},
    }


def test_move_when_it_is_forced_on_its_way_then_what_is_wrong_with_its_source_is_kept_with_it(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    forced = replace(move, path="forced", evacuated_for="HeartbeatLost")
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=(forced,))), ())
    tenants.save_changes(BatchChanges(other=Changes(moves=(replace(move, step="pausing"),))), ())
    with psycopg.connect(database.owner_url) as owner:
        assert owner.execute("SELECT step, path, evacuated_for FROM moves").fetchall() == [
            ("pausing", "forced", "HeartbeatLost")
        ]


def test_moves_when_their_ages_are_asked_for_then_of_each_step_the_oldest_counts_and_those_that_are_over_do_not(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)
    begun: dict[int, tuple[MoveStep, int]] = {
        11: ("adopting", 1400),
        12: ("adopting", 1300),
        13: ("ordered", 1990),
        14: ("done", 10),
    }
    others = tuple(
        replace(move, id=UUID(int=number), tenant_id=UUID(int=number), step=step, step_since=at(second))
        for number, (step, second) in begun.items()
    )
    fleet.save_changes(BatchChanges(other=Changes(moves_ordered=others)), ())
    with fleet.connection() as connection:
        ages = move_ages(connection, at(2000))
    assert ages == {
        "ordered": 10.0,
        "reserved": 0.0,
        "preparing": 1000.0,
        "pausing": 0.0,
        "releasing": 0.0,
        "adopting": 700.0,
        "withdrawing": 0.0,
        "cancelling": 0.0,
    }


def test_moves_when_a_planner_counts_then_its_metric_tells_how_long_each_step_takes(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    fleet, tenants = sessions
    moved(fleet, tenants)
    consumer = SimpleNamespace(partitions=[0])
    planner: Any = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: at(2000)), policy=Policy(), consumer=consumer, session=fleet
    )
    PeriodicTasks(timedelta(days=1))._count(planner)

    def told(step: str) -> float | None:
        return REGISTRY.get_sample_value("gitops_move_age_seconds", {"step": step})

    assert (told("preparing"), told("adopting")) == (1000.0, 0.0)


def test_tenants_when_an_instance_drains_then_those_are_told_that_no_move_takes_from_there(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    move = moved(fleet, tenants)

    def left() -> tuple[dict[str, int], float | None]:
        consumer = SimpleNamespace(partitions=[0])
        clock = SimpleNamespace(now=lambda: at(2000))
        planner: Any = SimpleNamespace(clock=clock, policy=Policy(), consumer=consumer, session=fleet)
        PeriodicTasks(timedelta(days=1))._count(planner)
        with fleet.connection() as connection:
            counted = count_unmoved(connection)
        return counted, REGISTRY.get_sample_value("gitops_engine_tenants_left", {"instance": move.source})

    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        assert left() == ({}, None), "it does not drain"
        owner.execute("UPDATE engine_instances SET state = 'draining' WHERE id = %s", (move.source,))
        assert left() == ({}, None), "it is on its way"
        owner.execute("UPDATE moves SET step = 'cancelled'")
        assert left() == ({move.source: 1}, 1.0)
        owner.execute("UPDATE tenants SET engine_instance_id = %s", (move.target,))
        assert left() == ({}, None), "it has gone"
        owner.execute("UPDATE deployments SET engine_instance_id = %s", (move.source,))
        assert left() == ({move.source: 1}, 1.0), "a part of it has not"


@pytest.fixture
def split(sessions: tuple[DatabaseSession, DatabaseSession], database: Database) -> tuple[str, str]:
    """The tenant has a second deployment, on the other instance; returns its own instance and that."""
    _, tenants = sessions
    tenants.save_changes(planned(tenants, changed(2, "api", uid="uid-2")), ())
    own, *_ = state_of(tenants)
    other = "one" if own == "two" else "two"
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE deployments SET engine_instance_id = %s WHERE uid = 'uid-2'", (other,))
        owner.execute("UPDATE engine_resources SET engine_instance_id = %s WHERE name = 'gitopsdepl-uid-2'", (other,))
    return own, other


def test_tenant_when_split_then_each_of_its_parts_is_found_by_its_name_with_what_it_has_there(
    split: tuple[str, str], database: Database
) -> None:
    own, other = split
    part = (WORKSPACE, f"{NAMESPACE}@{other}")
    with psycopg.connect(database.owner_url) as owner:
        named = load_counted_fleet(owner, ENGINES, [part]).tenants
        everywhere = load_all_tenants(owner, ENGINES)
        on_one, on_other = load_tenants_on(owner, [own]), load_tenants_on(owner, [other])
    known = {name: (each.engine_instance_id, each.deployments, each.is_split) for name, each in named.rows.items()}
    assert known == {NAME: (own, 1, True), part: (other, 1, True)}
    assert {name: each.load for name, each in everywhere.items()} == {NAME: LOAD, part: LOADS["Application"]}
    assert (on_one.on([own]), on_other.on([other])) == ({NAME: named[NAME]}, {part: named[part]})


def test_instance_when_it_has_a_part_of_a_tenant_then_it_is_not_empty(
    split: tuple[str, str], database: Database
) -> None:
    _, other = split
    with psycopg.connect(database.owner_url) as owner:
        held = load_counted_fleet(owner, ENGINES).holding(other)
        owner.execute("DELETE FROM engine_resources")
        left = load_counted_fleet(owner, ENGINES).holding(other)
    assert ((held.tenants, held.deployments), left.tenants) == ((1, 1), 1)


def test_target_when_a_part_is_on_its_way_then_only_that_counts_there(
    sessions: tuple[DatabaseSession, DatabaseSession], split: tuple[str, str], database: Database
) -> None:
    own, other = split
    order(sessions[0], 3, MoveTenant(WORKSPACE, f"{NAMESPACE}@{other}", own))
    with psycopg.connect(database.owner_url) as owner:
        counted = load_counted_fleet(owner, ENGINES)
        (row,) = owner.execute("SELECT namespace, source, target FROM moves").fetchall()
    assert (row, counted.holding(own).deployments) == ((NAMESPACE, other, own), 2)


def test_deployment_when_it_is_on_another_instance_than_its_tenant_then_the_next_planner_knows_it(
    sessions: tuple[DatabaseSession, DatabaseSession], split: tuple[str, str]
) -> None:
    _, tenants = sessions
    tenants.tenants.forget_tenants()
    (state,) = tenants.load_tenants([NAME]).tenants[NAME]
    assert {each.name: each.engine_instance_id for each in state.deployments.values()} == {"web": "", "api": split[1]}


def given_environments(sessions: tuple[DatabaseSession, DatabaseSession], database: Database) -> tuple[str, str]:
    """Two, and no room for any of their deployments on the tenant's own instance; returns that and the other."""
    fleet, tenants = sessions
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET capacity = 1")
    fleet.refresh_fleet()
    tenants.refresh_fleet()
    tenants.save_changes(planned(tenants, secret(2), environment(3, "dev"), environment(4, "prod")), ())
    (state,) = tenants.load_tenants([NAME]).tenants[NAME]
    own = state.tenant.engine_instance_id
    for (kind, name), held in state.objects.items():
        if kind == "ClusterSecret":
            event = Checked(held.digest, "Succeeded", "")
            tenants.save_changes(planned(tenants, observed(5, event, instance=own, kind=kind, name=name)), ())
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET capacity = 9 WHERE id <> %s", (own,))
    return own, "one" if own == "two" else "two"


def in_environment(number: int, name: str) -> Event:
    content = spec(destination={"environment": name, "namespace": "web"})
    return changed(10 + number, f"web-{number}", uid=f"uid-{number}", content=content)


def test_tenant_when_a_move_of_it_is_ordered_then_it_is_not_split_until_that_is_over(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    """Its planner knows it from memory, and hears nothing of the order."""
    fleet, tenants = sessions
    own, other = given_environments(sessions, database)
    order(fleet, 5, MoveTenant(*NAME, other))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE moves SET step = 'ordered', due_at = NULL")  # others have all places
    assert state_of(tenants) == (own, None, set())
    tenants.save_changes(planned(tenants, in_environment(2, "dev")), ())
    order(fleet, 6, CancelMove(*NAME))
    tenants.save_changes(planned(tenants, in_environment(3, "prod")), ())
    (state,) = tenants.load_tenants([NAME]).tenants[NAME]
    known = {each.name: each.engine_instance_id for each in state.deployments.values()}
    assert known == {"web": "", "web-2": "", "web-3": other}


def test_move_when_its_tenant_is_split_to_the_target_before_it_begins_then_it_ends_with_the_rule(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    fleet, tenants = sessions
    own, other = given_environments(sessions, database)
    before = planned(tenants, in_environment(2, "dev"))
    order(fleet, 5, MoveTenant(*NAME, other))
    tenants.save_changes(before, ())
    with tenants.connection() as connection:
        events = find_due_moves(connection, at(1001), [0], 10)
    tenants.save_changes(planned(tenants, *events), ())
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT step, is_cancelled, message FROM moves").fetchall()
    rule = f"engine instance {other} has a part of tenant {WORKSPACE}/{NAMESPACE} already"
    assert (rows, state_of(tenants)[:2]) == ([("cancelled", True, rule)], (own, None))


RETIRED = "UPDATE engine_instances SET state = 'retired' WHERE id = %s"
DEDICATED = "UPDATE engine_instances SET engine_class = 'dedicated', dedicated_to = 'another' WHERE id = %s"


@pytest.mark.parametrize("closed", [RETIRED, DEDICATED], ids=["retired", "dedicated"])
def test_part_when_its_instance_is_closed_by_another_planner_meanwhile_then_it_is_placed_again(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, closed: LiteralString
) -> None:
    _, tenants = sessions
    (state,) = tenants.load_tenants([NAME]).tenants[NAME]
    other = "one" if state.tenant.engine_instance_id == "two" else "two"
    changes = planned(tenants, changed(2, "api", uid="uid-2"))
    placed = replace(changes, other=changes.other._replace(parts=(TenantPart(state.tenant.id, other),)))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(closed, (other,))
    with pytest.raises(Retry, match="placed on engine instances that are retired or another workspace's"):
        tenants.save_changes(placed, ())
    tenants.save_changes(planned(tenants, changed(2, "api", uid="uid-2")), ())
