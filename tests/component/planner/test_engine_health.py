"""What agents tell of instances, in PostgreSQL: remembered, streamed when it is news, and shown to operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.fleet import engines
from services.common.messages import (
    AddEngineInstance,
    DrainEngineInstance,
    EngineHealth,
    Health,
    Observation,
    RetireEngineInstance,
)
from services.common.times import rfc3339
from services.planner.database import instance_queries
from services.planner.database.fleet_queries import is_installation_due
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, FleetDue, HealthDue
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance, told_working
from tests.component.planner.test_fleet import ordered
from tests.unit.planner.given import at, changed

PATIENCE = timedelta(seconds=180)
PARTITION = 7
EXPIRES_AT = at(86_400)
ONE, TWO = "one", "two"
STREAMED = "SELECT id, health, health_reason, version FROM engine_instances ORDER BY id"
WRITTEN = "SELECT id, xmin::text FROM engine_instances ORDER BY id"
Sessions = tuple[DatabaseSession, DatabaseSession]


@pytest.fixture
def sessions(database: Database) -> Iterator[Sessions]:
    """Two planners', on a database with two instances."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in (ONE, TWO):
            add_instance(owner, instance, f"argocd-{instance}")
    with ExitStack() as closing_all:
        first, second = (
            closing_all.enter_context(closing(DatabaseSession(database.planner_url, ENGINES))) for _ in range(2)
        )
        yield first, second


def told(second: int, health: str = "Healthy", reason: str = "", instance: str = ONE) -> Event:
    message = "why" if reason else ""
    event = EngineHealth(health, reason, message, "3.2.11", at(second), certificate_expires_at=EXPIRES_AT)
    return Event(Observation("", "", instance, "", "", at(second), event), PARTITION, "")


def planned(session: DatabaseSession, second: int, *events: Event) -> BatchChanges:
    return plan_batch(events, session, Policy(health_patience=PATIENCE), at(second))


def take(session: DatabaseSession, second: int, *events: Event) -> None:
    session.save_changes(planned(session, second, *events), ())


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url) as owner:
        return owner.execute(query.encode()).fetchall()


def shown(database: Database, instance: str) -> dict[str, object]:
    environment = {"DATABASE_OWNER_URL": database.owner_url}
    result = CliRunner(env=environment).invoke(engines.app, ["show", instance, "-o", "json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    found: dict[str, object] = row
    return found


def test_health_when_told_then_it_is_of_the_row_that_is_streamed_and_operators_are_shown_it(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 2, told(1, "Down", "HeartbeatLost"))
    assert rows(database, STREAMED) == [(ONE, "Down", "HeartbeatLost", "3.2.11"), (TWO, None, None, None)]
    row = shown(database, ONE)
    assert [row[name] for name in ("health", "reason", "version", "healthMessage")] == [
        "Down", "HeartbeatLost", "3.2.11", "why",
    ]  # fmt: skip
    assert (row["certificateExpiresAt"], shown(database, TWO)["certificateExpiresAt"]) == ("2026-05-05T12:00:00Z", None)
    assert shown(database, TWO)["health"] == "Unknown"


def counted(second: int, late: int) -> Event:
    """A report of an agent that counts Applications."""
    event = told(second)
    assert isinstance(event.message, Observation)
    assert isinstance(event.message.event, EngineHealth)
    health = replace(event.message.event, applications=2410, late=late, failed_syncs=1, failing_tenants=2)
    return replace(event, message=replace(event.message, event=health))


def test_applications_when_counted_then_operators_are_shown_the_counts_of_the_last_report_until_it_is_silent(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions

    def shown_counts() -> list[object]:
        row = shown(database, ONE)
        return [row[name] for name in ("countedAt", "applications", "late", "failedSyncs", "failingTenants")]

    take(session, 2, counted(1, late=9))
    take(session, 62, counted(61, late=3))
    assert shown_counts() == ["2026-05-04T12:01:01Z", 2410, 3, 1, 2]
    take(session, 64, told(63))
    assert shown_counts() == [None] * 5
    take(session, 72, counted(71, late=0))
    assert shown_counts() == ["2026-05-04T12:01:11Z", 2410, 0, 1, 2]
    take(session, 72 + int(PATIENCE.total_seconds()), Event(HealthDue(ONE), PARTITION, ""))
    assert shown_counts() == [None] * 5


def test_health_when_told_again_and_nothing_is_new_then_no_row_that_is_streamed_is_written(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 2, told(1))
    before = rows(database, WRITTEN)
    take(session, 62, told(61))
    assert rows(database, WRITTEN) == before
    assert rows(database, "SELECT reported_at, since FROM engine_health") == [(at(61), at(1))]


def test_health_when_it_is_down_all_the_time_then_operators_are_shown_since_when_it_can_be_reached(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 2, told(1, "Down", "ApiFailing"))
    take(session, 62, told(61, "Down", "ApiFailing"))
    since = "SELECT since FROM engine_health"
    assert rows(database, since) == [(at(1),)]
    take(session, 72, told(71, "Down", "ControllerNotReady"))
    take(session, 82, told(81, "Down", "HeartbeatLost"))
    assert rows(database, since) == [(at(71),)]
    assert shown(database, ONE)["healthSince"] == rfc3339(at(71))


def test_health_when_no_agent_tells_it_in_time_then_it_is_unknown_and_the_planner_of_its_partition_finds_out(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 2, told(1, "Down", "HeartbeatLost"))
    due = at(2) + PATIENCE

    def found(*partitions: int, early: float = 0, cluster: str = "default") -> list[Event]:
        with session.connection() as connection:
            until = due - timedelta(seconds=early)
            return instance_queries.find_due_health(connection, until, partitions, [cluster], 10)

    assert (found(PARTITION, early=1), found(PARTITION + 1), found(PARTITION, cluster="north")) == ([], [], [])
    take(session, 182, *found(PARTITION))
    assert rows(database, STREAMED)[0] == (ONE, "Unknown", "AgentSilent", "3.2.11")
    assert found(PARTITION) == []
    with session.connection() as connection:
        assert instance_queries.count_by_health(connection) == {
            Health.HEALTHY: 0, Health.DEGRADED: 0, Health.DOWN: 0, Health.UNKNOWN: 2,
        }  # fmt: skip


def test_order_when_decided_while_another_planner_is_told_of_the_instance_then_neither_undoes_the_other(
    sessions: Sessions, database: Database
) -> None:
    orders, health = sessions
    drained = planned(orders, 3, ordered(2, DrainEngineInstance(ONE)))
    take(health, 2, told(1, "Degraded", "ApiSlow"))
    orders.save_changes(drained, ())
    take(health, 4, told(3, "Down", "ApiFailing"))
    query = "SELECT health, health_reason, state FROM engine_instances WHERE id = 'one'"
    assert rows(database, query) == [("Down", "ApiFailing", "drained")]


def test_instance_when_drained_then_every_planner_sees_that_it_counts_among_no_others(sessions: Sessions) -> None:
    session, other = sessions
    take(session, 3, ordered(2, DrainEngineInstance(ONE)))
    other.refresh_fleet()
    assert {name: each.drained for name, each in other.fleet.instances.items()} == {ONE: True, TWO: False}


def test_tenant_when_its_first_choice_is_down_then_it_is_placed_elsewhere_by_any_planner(
    sessions: Sessions, database: Database
) -> None:
    session, other = sessions
    (tenant,) = planned(other, 2, changed(1)).tenants
    first = tenant.tenant.engine_instance_id
    take(session, 2, told(1, "Down", "HeartbeatLost", first))
    other.refresh_fleet()
    for planner in (session, other):
        (tenant,) = planned(planner, 2, changed(1)).tenants
        assert tenant.tenant.engine_instance_id == ({ONE, TWO} - {first}).pop()


def test_tenant_when_no_agent_tells_anything_of_its_first_choice_then_it_is_placed_elsewhere_until_one_does(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    (tenant,) = planned(session, 2, changed(1)).tenants
    first = tenant.tenant.engine_instance_id
    take(session, 2, told(1, instance=first))
    silent_at = 2 + int(PATIENCE.total_seconds())
    take(session, silent_at, Event(HealthDue(first), PARTITION, ""))
    session.refresh_fleet()
    (tenant,) = planned(session, 2, changed(1)).tenants
    assert tenant.tenant.engine_instance_id != first
    take(session, silent_at + 1, told(silent_at + 1, instance=first))
    session.refresh_fleet()
    (tenant,) = planned(session, 2, changed(1)).tenants
    assert tenant.tenant.engine_instance_id == first


def test_instance_when_retired_then_it_is_due_for_nothing_and_what_was_told_of_it_is_forgotten(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 2, told(1), told(1, instance=TWO))
    take(session, 4, ordered(3, RetireEngineInstance(ONE)))
    with session.connection() as connection:
        due = instance_queries.find_due_health(connection, at(2) + PATIENCE, [PARTITION], ["default"], 10)
        forgotten = instance_queries.forget_retired(connection)
    assert [event.message for event in due] == [HealthDue(TWO)]
    assert (forgotten, rows(database, "SELECT engine_instance_id FROM engine_health")) == (1, [(TWO,)])
    assert [shown(database, ONE)[name] for name in ("state", "health")] == ["retired", "Unknown"]


def test_health_when_it_is_of_a_retired_instance_then_it_is_passed_over(sessions: Sessions, database: Database) -> None:
    session, _ = sessions
    take(session, 2, ordered(1, RetireEngineInstance(ONE)))
    take(session, 4, told(3))
    assert rows(database, "SELECT count(*) FROM engine_health") == [(0,)]


@pytest.mark.parametrize("ready", [("Healthy", ""), ("Degraded", "CertificateExpiring")], ids="-".join)
def test_instance_when_installed_then_a_tenant_is_placed_on_it_once_its_agent_tells_that_it_is_ready(
    sessions: Sessions, database: Database, ready: tuple[str, str]
) -> None:
    session, _ = sessions
    added = AddEngineInstance("new", "default", "argocd-new", "argocd", "shared", "", "general", 9, "3.2.11", "fast")
    take(session, 1, ordered(1, added))
    row = "SELECT state, wanted_version, profile, due_at FROM engine_instances WHERE id = 'new'"
    ((*installed, due_at),) = rows(database, row)
    assert installed == ["provisioning", "3.2.11", "fast"]
    assert due_at == at(1) + Policy().provisioning_patience
    with session.connection() as connection:
        assert not is_installation_due(connection, at(5))
    take(session, 3, told(2, *ready, instance="new"))
    with session.connection() as connection:
        assert is_installation_due(connection, at(5))
    take(session, 4, Event(FleetDue(), 0, ""))
    assert rows(database, row) == [("accepting", "3.2.11", "fast", None)]
    with session.connection() as connection:
        assert not is_installation_due(connection, at(5))


def test_instance_when_somebody_else_looks_after_it_then_a_tenant_is_placed_on_it_once_its_agent_tells_that_it_works(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    take(session, 1, ordered(1, AddEngineInstance("new", "default", "new", "argocd", "shared", "", "general", 9)))
    assert shown(database, "new")["state"] == "provisioning"
    take(session, 3, told(2, "Down", "Closed", instance="new"))
    with session.connection() as connection:
        assert not is_installation_due(connection, at(5))
        assert is_installation_due(connection, at(1) + Policy().provisioning_patience)
    take(session, 1000, Event(FleetDue(), 0, ""))
    row = shown(database, "new")
    assert row["state"] == "failed"
    assert "in namespace new it is Down, Closed: why" in str(row["stateMessage"])
    take(session, 1002, told_working("new", 1001))
    with session.connection() as connection:
        assert is_installation_due(connection, at(1003))
    take(session, 1003, Event(FleetDue(is_of_states=False), 0, ""))
    row = shown(database, "new")
    assert (row["state"], row["stateMessage"]) == ("accepting", "")


def test_instance_when_added_by_remediation_then_the_next_look_says_until_when_it_has_to_be_ready(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    added = AddEngineInstance("new", "default", "argocd-new", "argocd", "shared", "", "general", 9, "3.2.11")
    take(session, 1, ordered(1, added))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET due_at = NULL WHERE id = 'new'")
    with session.connection() as connection:
        assert is_installation_due(connection, at(5))
    take(session, 5, Event(FleetDue(is_of_states=False), 0, ""))
    with session.connection() as connection:
        assert not is_installation_due(connection, at(6))


def test_instance_when_not_installed_in_time_then_it_has_failed_and_operators_are_shown_why(
    sessions: Sessions, database: Database
) -> None:
    session, _ = sessions
    added = AddEngineInstance("new", "default", "argocd-new", "argocd", "shared", "", "general", 9, "3.2.11")
    take(session, 1, ordered(1, added))
    take(session, 2, told(2, "Down", "Closed", instance="new"))
    with session.connection() as connection:
        assert is_installation_due(connection, at(1000))
    take(session, 1000, Event(FleetDue(), 0, ""))
    row = shown(database, "new")
    assert (row["state"], row["wantedVersion"]) == ("failed", "3.2.11")
    assert "it is Down, Closed: why" in str(row["stateMessage"])
