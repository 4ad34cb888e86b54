"""What operators assign, in PostgreSQL: where a new tenant is placed by it, on any planner, and after a rebuild."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from services.cli.rebuild.placements import Placements
from services.cli.rebuild.start import END, TopicContents, begin
from services.cli.rebuild.streamed_topics import PlacementTopic
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import COMMANDS, LogExtent, TopicPartition
from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    AssignWorkspace,
    DedicateEngineInstance,
    DrainEngineCluster,
    EngineHealth,
    FleetOrder,
    Observation,
    Order,
    PinTenant,
    RetireEngineCluster,
    UnpinTenant,
)
from services.planner.database import fleet_queries
from services.planner.database.assignment_queries import load_rules
from services.planner.database.fleet_queries import load_all_tenants, load_fleet_rows, load_measured
from services.planner.database.periodic_queries import rebuild_age
from services.planner.database.pool_queries import load_pools
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, FleetDue
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.placement.measured_load import WAITING
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.rows import EngineClusterRow
from services.planner.domain.policy import Policy
from services.planner.engines.argocd.load import LOADS
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance, told_working
from tests.component.planner.test_fleet import STREAMED, await_lock, rows
from tests.component.planner.test_migrations import recreate
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, spec

DEADLINE_SECONDS = 30.0
CANARY = AddEngineInstance("two", "north", "argocd-2", "argocd", "shared", "", "canary", 7)
LOGS = {TopicPartition(COMMANDS, 0): LogExtent("commands", 0, 5)}
ASSIGNMENTS = "SELECT workspace, region, ring FROM workspace_assignments"
PINS = "SELECT workspace, namespace, engine_instance_id FROM tenant_pins"
PLACED = "SELECT engine_instance_id FROM tenants"
OUTCOMES = "SELECT kind, outcome FROM fleet_orders ORDER BY ordered_at"


@pytest.fixture
def sessions(database: Database) -> Iterator[tuple[DatabaseSession, DatabaseSession]]:
    """Two planners', on a database with the instance "one", and "two" of ring canary in region eu."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "one", "argocd")
    with ExitStack() as closing_all:
        first, second = (
            closing_all.enter_context(closing(DatabaseSession(database.planner_url, ENGINES))) for _ in range(2)
        )
        first.save_changes(planned(first, ordered(1, AddEngineCluster("north", "eu")), ordered(2, CANARY)), ())
        first.save_changes(planned(first, told_working(CANARY.id)), ())
        first.save_changes(planned(first, Event(FleetDue(), 0, "")), ())
        yield first, second


def ordered(second: int, order: Order) -> Event:
    return Event(FleetOrder(UUID(int=second), "ada", at(second), order), 0, "")


def planned(session: DatabaseSession, *events: Event) -> BatchChanges:
    return plan_batch(events, session, Policy(), at(1000))


@pytest.mark.parametrize(
    ("region", "ring", "expected"), [("", "general", "one"), ("", "canary", "two"), ("eu", "", "two")]
)
def test_tenant_when_its_workspace_was_assigned_by_another_planner_then_it_is_placed_there_at_once(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, region: str, ring: str, expected: str
) -> None:
    decides, places = sessions
    places.refresh_fleet()
    decides.save_changes(planned(decides, ordered(3, AssignWorkspace(WORKSPACE, region, ring))), ())
    assert rows(database, ASSIGNMENTS) == [(WORKSPACE, region, ring)]
    places.save_changes(planned(places, changed(4)), ())
    assert rows(database, PLACED) == [(expected,)]


@pytest.mark.parametrize(("workspace", "expected"), [(WORKSPACE, {"one"}), ("elsewhere", {"one", "two"})])
def test_tenants_when_their_workspace_is_in_one_engine_cluster_then_all_are_placed_there_and_those_of_others_in_each(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, workspace: str, expected: set[str]
) -> None:
    """By the setting LOCAL_WORKSPACES: here as it is if it is left out."""
    _, places = sessions
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET capacity = 2500")
    places.refresh_fleet()
    new = [changed(4, namespace=f"team-{n}", uid=f"uid-{n}", workspace=workspace) for n in range(20)]
    places.save_changes(planned(places, *new), ())
    assert {instance for (instance,) in rows(database, PLACED)} == expected


def test_tenants_when_others_are_read_then_what_is_known_of_those_in_memory_stays(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    decides, places = sessions
    places.load_tenants([(WORKSPACE, NAMESPACE)])
    decides.save_changes(planned(decides, ordered(3, AssignWorkspace(WORKSPACE, "eu", ""))), ())
    places.refresh_fleet()
    loaded = places.load_tenants([(WORKSPACE, NAMESPACE), ("other", "web")])
    assert [*loaded.fleet.rules.assignments] == [WORKSPACE]


def test_workspace_when_its_assignment_is_taken_back_then_its_row_is_gone_and_every_planner_knows(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    decides, places = sessions
    decides.save_changes(planned(decides, ordered(3, AssignWorkspace(WORKSPACE, "eu", ""))), ())
    places.refresh_fleet()
    decides.save_changes(planned(decides, ordered(4, AssignWorkspace(WORKSPACE, "", ""))), ())
    assert rows(database, ASSIGNMENTS) == []
    loaded = places.load_tenants([(WORKSPACE, NAMESPACE)])
    assert loaded.fleet.rules == PlacementRules()


@pytest.mark.parametrize("target", ["one", "two"])
def test_tenant_when_it_was_pinned_before_it_came_then_it_is_placed_there_and_stays_until_unpinned(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, target: str
) -> None:
    decides, places = sessions
    places.refresh_fleet()
    decides.save_changes(planned(decides, ordered(3, PinTenant(WORKSPACE, NAMESPACE, target))), ())
    places.save_changes(planned(places, changed(4)), ())
    assert rows(database, PLACED) == [(target,)]
    assert rows(database, PINS) == [(WORKSPACE, NAMESPACE, target)]
    decides.save_changes(planned(decides, ordered(5, UnpinTenant(WORKSPACE, NAMESPACE))), ())
    assert rows(database, PINS) == []


def test_orders_when_decided_then_each_is_in_the_audit_with_all_that_was_ordered(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, _ = sessions
    orders = (
        AssignWorkspace("team", "eu", ""),
        DedicateEngineInstance("two", "team"),
        PinTenant("team", "web", "two"),
        UnpinTenant("team", "web"),
        DrainEngineCluster("north"),
        RetireEngineCluster("north"),
    )
    session.save_changes(planned(session, *(ordered(3 + n, each) for n, each in enumerate(orders))), ())
    kinds = [(type(each).__name__, "accepted") for each in orders]
    kinds[-1] = ("RetireEngineCluster", "refused")
    assert rows(database, OUTCOMES)[2:] == kinds
    (arguments,) = rows(database, "SELECT arguments FROM fleet_orders WHERE kind = 'AssignWorkspace'")
    assert json.loads(str(arguments[0])) == {"workspace": "team", "region": "eu", "ring": ""}
    state = "SELECT state, dedicated_to FROM engine_instances WHERE id = 'two'"
    assert rows(database, state) == [("drained", "team")]
    assert rows(database, "SELECT state FROM engine_clusters WHERE id = 'north'") == [("draining",)]


def test_instance_when_dedicated_while_another_planner_places_a_tenant_on_it_then_the_tenant_goes_elsewhere(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    dedicates, places = sessions
    changes = planned(places, changed(1))
    (chosen,) = (each.tenant.engine_instance_id for each in changes.tenants)
    dedicates.save_changes(planned(dedicates, ordered(3, DedicateEngineInstance(chosen, "team"))), ())
    with pytest.raises(Retry, match="another workspace's"):
        places.save_changes(changes, ())
    places.save_changes(planned(places, changed(1)), ())
    assert rows(database, PLACED) == [("two" if chosen == "one" else "one",)]


def test_instance_when_a_tenant_comes_to_it_while_it_is_to_be_dedicated_then_that_is_refused(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    dedicates, places = sessions
    changes = planned(places, changed(1))
    (chosen,) = (each.tenant.engine_instance_id for each in changes.tenants)
    places.write_changes(changes, ())
    with ThreadPoolExecutor(1) as thread:
        refusal = thread.submit(planned, dedicates, ordered(3, DedicateEngineInstance(chosen, "team")))
        await_lock(database)
        places.save_changes(BatchChanges(), ())
        dedicates.save_changes(refusal.result(DEADLINE_SECONDS), ())
    (refused,) = rows(database, "SELECT message FROM fleet_orders WHERE kind = 'DedicateEngineInstance'")
    assert refused[0].startswith(f"engine instance {chosen} has tenants of other workspaces: {WORKSPACE}; ")


def test_load_when_a_tenant_is_placed_then_the_next_is_placed_by_it_before_it_is_measured(
    sessions: tuple[DatabaseSession, DatabaseSession],
) -> None:
    places, _ = sessions
    places.refresh_fleet()
    assert not any(places.fleet.load.values())
    places.save_changes(planned(places, changed(4)), ())
    added = Counter(places.fleet.load)
    assert +added == {"one": 11}
    places.save_changes(planned(places, changed(5, generation=2, content=spec(source={"path": "apps/other"}))), ())
    assert places.fleet.load == added
    places.refresh_fleet()
    assert places.fleet.load == added


def test_load_when_measured_then_objects_count_by_their_kinds_with_what_waits_and_each_tenants_share_is_known(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, _ = sessions
    session.save_changes(planned(session, changed(1)), ())
    ((instance,),) = rows(database, PLACED)
    told = Observation("", "", str(instance), "", "", at(5), EngineHealth("Healthy", "", "", "3.2.11", None, 4))
    session.save_changes(planned(session, Event(told, 0, "")), ())
    carried = LOADS["Application"] + LOADS["AppProject"]
    with psycopg.connect(database.owner_url) as owner:
        assert load_measured(owner, ENGINES)[str(instance)] == carried + 4 * WAITING
        assert [each.load for each in load_all_tenants(owner, ENGINES).values()] == [carried]
        assert load_fleet_rows(owner, ENGINES).health[str(instance)].queue == 4


ASSIGNED = WorkspaceAssignment("team", "eu", "canary", datetime(2026, 5, 4, tzinfo=UTC))
PIN = TenantPin("team", "web", STREAMED.id, datetime(2026, 5, 5, tzinfo=UTC))
CLUSTERS = (
    EngineClusterRow("north", "eu", at(1), "draining", at(2)),
    EngineClusterRow("west", "us", at(1), "retired", at(3)),
)
POOL = EnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", "wide", at(4), at(5), STREAMED.id, "it is in want")
NO_POOL = ("default", "early")
INSERT_POOL = "INSERT INTO engine_pools VALUES (%s, %s, 0, 1, 0, 1, '3.2.11', '', now(), null, null, '')"


@pytest.mark.parametrize("revision", [None, "0047"], ids=["this release", "the last one that reads no clusters there"])
def test_rebuild_when_it_begins_then_what_was_laid_down_is_as_it_was_streamed_and_what_was_taken_back_is_gone(
    database: Database, revision: str | None
) -> None:
    told = PlacementTopic(
        assignments=(ASSIGNED,),
        pins=(PIN,),
        unassigned=("gone",),
        unpinned=(("team", "gone"),),
        clusters=CLUSTERS,
        pools=(POOL,),
        removed_pools=(NO_POOL,),
    )
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        if revision is not None:
            recreate(owner, database.owner_url, revision)
        add_instance(owner, STREAMED.id, "argocd")
        owner.execute("INSERT INTO workspace_assignments VALUES ('gone', 'us', '', now()), ('kept', 'us', '', now())")
        owner.execute("INSERT INTO tenant_pins VALUES ('team', 'gone', %s, now())", (STREAMED.id,))
        owner.execute(INSERT_POOL, NO_POOL)
    for _ in range(2):  # as after a crash
        begin(
            database.owner_url,
            TopicContents({STREAMED.id: STREAMED}, Placements(), {}, told),
            LOGS,
            restored=False,
            incomplete=False,
        )
    with psycopg.connect(database.owner_url) as owner:
        # What a rebuild has written, and no more: a planner of this release needs the newest columns of other tables.
        rules, pools = load_rules(owner), load_pools(owner)
        clusters = [EngineClusterRow(*row) for row in owner.execute(f"{fleet_queries.CLUSTERS} ORDER BY id")]
        ((is_rebuilt,),) = owner.execute(fleet_queries.IS_REBUILT).fetchall()
    assert rules.assignments["team"] == ASSIGNED
    assert sorted(rules.assignments) == ["kept", "team"]
    assert rules.pins == {("team", "web"): PIN}
    assert pools == {POOL.key: POOL}
    assert [row for row in clusters if row.id != "default"] == [*CLUSTERS]
    assert is_rebuilt


def test_rebuild_when_under_way_then_a_planner_can_tell_since_when_until_it_has_ended(database: Database) -> None:
    with (
        psycopg.connect(database.owner_url, autocommit=True) as owner,
        psycopg.connect(database.planner_url, autocommit=True) as planner,
    ):
        assert rebuild_age(planner, at(0)) == 0.0
        begin(
            database.owner_url,
            TopicContents({}, Placements(), {}, PlacementTopic()),
            LOGS,
            restored=False,
            incomplete=False,
        )
        owner.execute("UPDATE rebuild_positions SET began_at = %s", (at(10),))
        assert rebuild_age(planner, at(3610)) == 3600.0
        owner.execute(END)
        assert rebuild_age(planner, at(3610)) == 0.0


def test_rebuild_when_a_tenant_is_pinned_to_an_instance_that_nobody_knows_then_the_remedy_is_named(
    database: Database,
) -> None:
    told = PlacementTopic(pins=(replace(PIN, engine_instance_id="lost"),))
    with pytest.raises(InvalidConfiguration, match="tenants are on lost; add them"):
        begin(database.owner_url, TopicContents({}, Placements(), {}, told), LOGS, restored=False, incomplete=False)


def test_rebuild_when_a_pool_is_of_a_cluster_that_nobody_knows_then_the_remedy_is_named(database: Database) -> None:
    told = PlacementTopic(pools=(replace(POOL, engine_cluster="lost"),))
    with pytest.raises(InvalidConfiguration, match=r"pools are of engine clusters .*: lost; insert their rows"):
        begin(database.owner_url, TopicContents({}, Placements(), {}, told), LOGS, restored=False, incomplete=False)
