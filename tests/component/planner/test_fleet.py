"""The fleet's rows in PostgreSQL: what is decided on them, and two planners that meet at an instance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import LiteralString
from uuid import UUID

import psycopg
import pytest

from services.cli.rebuild.placements import Placements
from services.cli.rebuild.start import TopicContents, begin
from services.common.errors import Retry
from services.common.kafka import COMMANDS, FLEET_ORDERS, LogExtent, TopicPartition
from services.common.messages import AddEngineCluster, AddEngineInstance, FleetOrder, Order, RetireEngineInstance
from services.planner.database.fleet_queries import is_state_due, load_counted_fleet
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, FleetDue
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at, changed, spec

DEADLINE_SECONDS = 30.0
ROWS = """
SELECT id, namespace, engine_cluster, region, engine_class, dedicated_to, ring, capacity, state FROM engine_instances
"""
STREAMED = EngineInstanceRow(
    "one", "argocd", "argocd", "north", "eu", "dedicated", "team", "canary", 7, "draining", at(1), at(2)
)
ORDERS_LOG = TopicPartition(FLEET_ORDERS, 0)
LOGS = {TopicPartition(COMMANDS, 0): LogExtent("commands", 0, 5)}
CARRIED = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, owner_kind,
                              engine_cluster)
SELECT %s, 'Application', 'argocd', 'app-' || number, 'local', 'other', '', 0,
       'present', '{}', '', '', now(), now(), 'GitOpsDeployment', 'default'
  FROM generate_series(1, %s) AS number
"""
ORDERS = "SELECT subject, outcome, message FROM fleet_orders ORDER BY ordered_at"


@pytest.fixture
def sessions(database: Database) -> Iterator[tuple[DatabaseSession, DatabaseSession]]:
    """Two planners', on a database with the instance "one"."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "one", "argocd")
    with ExitStack() as closing_all:
        first, second = (
            closing_all.enter_context(closing(DatabaseSession(database.planner_url, ENGINES))) for _ in range(2)
        )
        yield first, second


def ordered(second: int, order: Order) -> Event:
    return Event(FleetOrder(UUID(int=second), "ada", at(second), order), 0, "")


def planned(session: DatabaseSession, *events: Event) -> BatchChanges:
    return plan_batch(events, session, Policy(), at(1000))


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url) as owner:
        return owner.execute(query.encode()).fetchall()


def test_instance_when_ordered_then_its_row_has_all_that_was_ordered_and_its_clusters_region(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, _ = sessions
    added = AddEngineInstance("two", "north", "argocd-2", "argocd", "dedicated", "team", "canary", 7)
    events = (ordered(1, AddEngineCluster("north", "eu")), ordered(2, added))
    session.save_changes(planned(session, *events), ())
    assert ("two", "argocd-2", "north", "eu", "dedicated", "team", "canary", 7, "provisioning") in rows(database, ROWS)
    told = "it takes tenants once its agent tells that it works: 'gitopsctl engines show two' shows how far that is"
    assert rows(database, ORDERS) == [("north", "accepted", ""), ("two", "accepted", told)]
    session.save_changes(planned(session, *events), ())
    assert rows(database, ORDERS) == [("north", "accepted", ""), ("two", "accepted", told)]


def test_instance_when_retired_while_another_planner_places_a_tenant_on_it_then_the_tenant_goes_elsewhere(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    retires, places = sessions
    changes = planned(places, changed(1))
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "two", "argocd-2")
    retires.save_changes(planned(retires, ordered(1, RetireEngineInstance("one"))), ())
    with pytest.raises(Retry, match="that are retired"):
        places.save_changes(changes, ())
    places.save_changes(planned(places, changed(1)), ())
    assert rows(database, "SELECT engine_instance_id FROM tenants") == [("two",)]


def test_instance_when_a_tenant_comes_to_it_while_it_is_to_be_retired_then_that_is_refused(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    retires, places = sessions
    places.write_changes(planned(places, changed(1)), ())
    with ThreadPoolExecutor(1) as thread:
        refusal = thread.submit(planned, retires, ordered(1, RetireEngineInstance("one")))
        await_lock(database)
        places.save_changes(BatchChanges(), ())
        retires.save_changes(refusal.result(DEADLINE_SECONDS), ())
    ((instance, outcome, message),) = rows(database, ORDERS)
    assert (instance, outcome) == ("one", "refused")
    assert message.startswith("engine instance one still has tenants: 1; ")


def test_rebuild_when_it_begins_then_the_fleet_is_as_it_was_streamed_and_no_order_of_before_is_decided_again(
    database: Database,
) -> None:
    known = TopicContents(
        {STREAMED.id: STREAMED}, Placements({UUID(int=1): STREAMED.id}), {ORDERS_LOG: LogExtent("log", 3, 9)}
    )
    for _ in range(2):  # as after a crash
        begin(database.owner_url, known, LOGS, restored=False, incomplete=False)
    with psycopg.connect(database.owner_url) as owner:
        fleet = load_counted_fleet(owner, ENGINES)
    assert (fleet.instances, fleet.holding(STREAMED.id).tenants) == ({STREAMED.id: STREAMED}, 1)
    assert {each.id: each.region for each in fleet.clusters.values()} == {"default": "", "north": "eu"}
    offsets = "SELECT topic, partition, next_offset, topic_id FROM consumer_offsets"
    assert rows(database, offsets) == [(*ORDERS_LOG, 9, "log")]


def test_rebuild_when_the_fleet_was_added_anew_by_hand_then_it_is_what_was_streamed(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("INSERT INTO engine_clusters VALUES ('north', 'eu', now(), 'active', now())")
        add_instance(owner, STREAMED.id, "argocd-elsewhere")
    begin(
        database.owner_url,
        TopicContents({STREAMED.id: STREAMED}, Placements(), {}),
        LOGS,
        restored=False,
        incomplete=False,
    )
    with psycopg.connect(database.owner_url) as owner:
        assert load_counted_fleet(owner, ENGINES).instances == {STREAMED.id: STREAMED}


UNREAD: dict[str, Callable[[Fleet], object]] = {
    "what is on an instance": lambda fleet: fleet.holding("one"),
    "tenants of an instance": lambda fleet: fleet.tenants.on(["one"]),
    "a tenant that nobody has named": lambda fleet: fleet.tenants.get(("team", "other")),
    "whether a retired instance had an id": lambda fleet: fleet.find_instance("two"),
    "pins": lambda fleet: fleet.rules.pinned_to(("team", "web")),
    "assignments": lambda fleet: fleet.rules.affinity("team"),
    "loads": lambda fleet: fleet.load.get("one"),
    "moves that went back": lambda fleet: fleet.returned.get((UUID(int=1), "one")),
    "evacuations": lambda fleet: fleet.evacuations.get(("team", "web")),
}


@pytest.mark.parametrize("read", UNREAD.values(), ids=UNREAD)
def test_fleet_when_its_rows_alone_are_loaded_then_no_decision_reads_another_part_of_it(
    sessions: tuple[DatabaseSession, DatabaseSession], read: Callable[[Fleet], object]
) -> None:
    fleet = sessions[0].fleet_reader.load_fleet_rows((), (), [("team", "web")])
    assert (fleet.instances.keys(), fleet.tenants.get(("team", "web"))) == ({"one"}, None)
    with pytest.raises(LookupError, match=r"not (loaded|read)"):
        read(fleet)


def test_fleet_when_its_other_parts_are_loaded_then_a_decision_reads_them(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    reader, tenant = sessions[0].fleet_reader, ("team", "other")
    fleet = reader.load_retired_and_assignments(reader.load_fleet_rows((), (), ()))
    fleet = fleet.with_holdings(reader.load_holdings(["one"]))
    assert (fleet.find_instance("two"), fleet.rules.pinned_to(tenant), fleet.holding("one").tenants) == (None, "", 0)
    for tenants in (reader.load_tenants_on(["one"]), reader.load_measured_tenants_on(["one"])):
        assert tenants.on(["one"]) == {}
    assert reader.load_all_tenants().get(tenant) is None


def test_tenant_when_its_first_choice_carries_much_more_than_another_instance_then_it_is_placed_on_that(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, other = sessions
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "two", "argocd-2")
    (tenant,) = planned(other, changed(1)).tenants
    first = tenant.tenant.engine_instance_id
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(CARRIED, (first, 100))
    session.refresh_fleet()
    session.save_changes(planned(session, changed(1)), ())
    assert rows(database, "SELECT engine_instance_id FROM tenants") == [("one" if first == "two" else "two",)]


ELSEWHERE: dict[str, LiteralString] = {
    "all of it": "UPDATE tenants SET engine_instance_id = 'two'",
    "a part of it": "UPDATE deployments SET engine_instance_id = 'two'",
}


@pytest.mark.parametrize("elsewhere", ELSEWHERE.values(), ids=ELSEWHERE)
def test_tenant_when_it_is_on_an_instance_that_was_added_since_the_fleet_was_read_then_it_is_planned_there(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, elsewhere: LiteralString
) -> None:
    session, other = sessions
    session.save_changes(planned(session, changed(1)), ())
    other.refresh_fleet()
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "two", "argocd-2")
        owner.execute(elsewhere)
        owner.execute("UPDATE engine_resources SET engine_instance_id = 'two'")
    changes = planned(other, changed(2, generation=2, content=spec(source={"path": "apps/api"})))
    assert changes.other.parked == ()
    ((application,),) = [
        [row for row in tenant.written.engine if row.kind == "Application"] for tenant in changes.tenants
    ]
    assert (application.engine_instance_id, application.namespace) == ("two", "argocd-2")


def test_instance_when_it_has_as_many_deployments_as_its_capacity_then_it_is_due_to_be_full_and_becomes_so(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, _ = sessions
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(CARRIED, ("one", 2500))
    with session.connection() as connection:
        assert is_state_due(connection)
    session.save_changes(planned(session, Event(FleetDue(), 0, "")), ())
    assert rows(database, "SELECT state FROM engine_instances") == [("full",)]
    with session.connection() as connection:
        assert not is_state_due(connection)


def await_lock(database: Database) -> None:
    """Until somebody waits for a row that another transaction holds."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    deadline = threading.Event()
    for _ in range(round(DEADLINE_SECONDS / 0.02)):
        if rows(database, waiting) != [(0,)]:
            return
        deadline.wait(0.02)
    raise AssertionError("nobody waits")
