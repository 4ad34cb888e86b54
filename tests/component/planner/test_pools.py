"""Pools in PostgreSQL: instances are added, given up and relieved by rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.fleet import engines
from services.common.messages import (
    EngineHealth,
    EngineInstallation,
    Observation,
    RemoveEnginePool,
    RetireEngineInstance,
    SetEnginePool,
)
from services.planner.database.pool_queries import (
    find_leaving,
    is_scaling_due,
    overloaded_instances,
    pools_in_want,
    unready_instances,
)
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, FleetDue, ScalingDue
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.test_fleet import ordered
from tests.unit.planner.given import at, changed

POOL = SetEnginePool("default", "general", 1, 2, 0, 10, "3.2.11", "")
HOUR = 3600
ONE, TWO = "default-general-1", "default-general-2"
MOVING = "SELECT source, target, actor FROM moves"
STATES = "SELECT id, state FROM engine_instances ORDER BY id"


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A planner's, on a database with a cluster, which each has that was just made, and no instance."""
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        yield opened


def take(session: DatabaseSession, second: int, *events: Event) -> None:
    session.save_changes(plan_batch(events, session, Policy(), at(second)), ())


def scale_at(session: DatabaseSession, second: int) -> None:
    take(session, second, Event(ScalingDue(), 0, ""))


def make_ready(session: DatabaseSession, second: int, instance: str) -> None:
    told = EngineHealth("Healthy", "", "", "3.2.11", at(second))
    take(session, second, Event(Observation("", "", instance, "", "", at(second), told), 1, ""))
    take(session, second, Event(FleetDue(), 0, ""))


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url) as owner:
        return owner.execute(query.encode()).fetchall()


def shown(database: Database) -> dict[str, object]:
    environment = {"DATABASE_OWNER_URL": database.owner_url}
    result = CliRunner(env=environment).invoke(engines.app, ["pool", "list", "-o", "json"])
    (row,) = json.loads(result.stdout)
    found: dict[str, object] = row
    return found


def test_pool_when_ordered_then_it_grows_shrinks_and_is_forgotten(session: DatabaseSession, database: Database) -> None:
    with session.connection() as connection:
        assert not is_scaling_due(connection)
    take(session, 1, ordered(1, POOL))
    with session.connection() as connection:
        assert is_scaling_due(connection)
    scale_at(session, 2)
    assert rows(database, STATES) == [(ONE, "provisioning")]
    make_ready(session, 3, ONE)
    assert rows(database, STATES) == [(ONE, "accepting")]

    take(session, 4, ordered(4, SetEnginePool("default", "general", 2, 2, 0, 10, "3.2.11", "")))
    scale_at(session, 5)
    make_ready(session, 6, TWO)
    assert rows(database, STATES) == [(ONE, "accepting"), (TWO, "accepting")]

    take(session, 7, ordered(7, POOL))
    scale_at(session, 8)
    scale_at(session, 8 + 25 * HOUR)
    assert rows(database, STATES) == [(ONE, "drained"), (TWO, "accepting")]
    assert shown(database)["leaving"] == ONE
    with session.connection() as connection:
        assert find_leaving(connection) == [ONE]
    scale_at(session, 9 + 25 * HOUR)
    assert rows(database, STATES) == [(ONE, "retired"), (TWO, "accepting")]
    assert shown(database)["leaving"] == ""

    take(session, 9999, ordered(9999, RemoveEnginePool("default", "general")))
    with session.connection() as connection:
        assert not is_scaling_due(connection)
    orders = "SELECT kind, subject, actor, outcome FROM fleet_orders WHERE actor = 'planner' ORDER BY ordered_at"
    assert rows(database, orders) == [
        ("AddEngineInstance", ONE, "planner", "accepted"),
        ("AddEngineInstance", TWO, "planner", "accepted"),
        ("DrainEngineInstance", ONE, "planner", "accepted"),
        ("RetireEngineInstance", ONE, "planner", "accepted"),
    ]


def test_instance_when_in_no_pool_and_overloaded_for_long_then_one_planner_has_the_fewest_tenants_move(
    session: DatabaseSession, database: Database
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "one", "argocd-1")
    session.refresh_fleet()
    take(session, 1, *(changed(1, namespace=f"team-{number}", uid=f"uid-{number}") for number in range(8)))
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "two", "argocd-2")
        add_instance(owner, "three", "argocd-3")
        owner.execute("UPDATE engine_instances SET ring = 'early' WHERE id = 'three'")

    # Eight Applications, and a project of each tenant: 8.8.
    assert looks_with_capacity(session, database, 11) == []
    looks = looks_with_capacity(session, database, 10)
    assert looks == [Event(ScalingDue(), 0, "")]
    assert looks_with_capacity(session, database, 10, partition=None) == []

    take(session, 10, *looks)
    assert rows(database, "SELECT engine_instance_id FROM engine_overloads") == [("one",)]
    with session.connection() as connection:
        assert overloaded_instances(connection) == ["one"]
    scale_at(session, 609)
    assert rows(database, MOVING) == []
    scale_at(session, 610)
    assert rows(database, MOVING) == [("one", "two", "planner")] * 2
    session.refresh_fleet()
    scale_at(session, 1210)
    assert rows(database, MOVING) == [("one", "two", "planner")] * 2
    assert rows(database, "SELECT engine_instance_id FROM engine_overloads") == []


def looks_with_capacity(
    session: DatabaseSession, database: Database, capacity: int, partition: int | None = 0
) -> list[Event]:
    """What the clock has a planner look at that has this partition of orders, if all instances have this capacity."""
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET capacity = %s", (capacity,))
    session.refresh_fleet()
    looks: list[Event] = []
    consumer = SimpleNamespace(fleet_partition=partition)
    planner: Any = SimpleNamespace(consumer=consumer, session=session, apply_due_events=looks.extend)
    PeriodicTasks(timedelta(days=1))._look_at_pools(planner)
    return looks


def test_pool_when_an_instance_has_failed_then_that_is_counted_and_the_pool_says_so(
    session: DatabaseSession, database: Database
) -> None:
    take(session, 1, ordered(1, SetEnginePool("default", "general", 2, 2, 0, 10, "3.2.11", "")))
    scale_at(session, 2)
    take(session, 2000, Event(FleetDue(), 0, ""))
    take(session, 2001, ordered(2001, SetEnginePool("default", "general", 3, 3, 0, 10, "3.2.11", "")))
    scale_at(session, 2002)
    with session.connection() as connection:
        assert unready_instances(connection) == {ONE: True, TWO: True}
        assert pools_in_want(connection) == {("default", "general"): True}
    assert f"{ONE} has failed" in str(shown(database)["message"])


def test_installation_when_told_of_a_retired_instance_then_it_is_shown_and_of_none_that_there_is_not(
    session: DatabaseSession, database: Database
) -> None:
    take(session, 1, ordered(1, POOL))
    scale_at(session, 2)
    take(session, 3, ordered(3, RetireEngineInstance(ONE)))
    for second, instance, phase in ((5, ONE, "Removed"), (4, ONE, "Removing"), (4, "nobodys", "Applied")):
        told = EngineInstallation(phase, "", "")
        take(session, second, Event(Observation("", "", instance, "", "", at(second), told), 1, ""))
    installations = "SELECT engine_instance_id, phase FROM engine_installations"
    assert rows(database, installations) == [(ONE, "Removed")]
