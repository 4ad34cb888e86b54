"""An engine instance that is given up as lost: what rows there were of it, and what operators are told before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.fleet import engines
from services.common.clock import SystemClock
from services.common.messages import (
    ORPHAN_REMOVAL,
    Command,
    EngineHealth,
    Observation,
    OrphansApproved,
    OrphansKept,
    RetireEngineInstance,
)
from services.planner.database.instance_queries import find_lost_objects, forget_retired
from services.planner.database.periodic_queries import count_kept_orphans
from services.planner.database.remedy_queries import count_remediations, is_remedy_due
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, RemediesDue
from services.planner.engines.available import ENGINES
from services.planner.pipeline import periodic_tasks
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.test_fleet import ordered, planned, rows
from tests.unit.planner.given import at, changed, in_namespace

HELD = "SELECT engine_instance_id, desired FROM engine_resources WHERE kind = 'Application' ORDER BY 1"
APPROVED = f"SELECT count(*) FROM engine_resources WHERE kind = '{ORPHAN_REMOVAL}'"  # noqa: S608 - a constant
MORE = """
INSERT INTO engine_resources
SELECT engine_instance_id, kind, namespace, unnest(%s::text[]), workspace, tenant_namespace, lane, wave, desired,
       manifest, digest, trace_id, seen_at, updated_at, owner_kind, owner_id, engine_cluster
  FROM engine_resources WHERE engine_instance_id = 'one' AND kind = 'Application'
"""
PLACED = "SELECT engine_instance_id, former_since > 0 FROM tenants ORDER BY 1"


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """Of a planner; the only tenant is on the instance "one", and there is another."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "one", "argocd")
    with closing(DatabaseSession(database.planner_url, ENGINES)) as found:
        take(found, *in_namespace(("former", 1000), changed(1)))
        with psycopg.connect(database.owner_url) as owner:
            add_instance(owner, "two", "argocd-2")
            owner.execute("UPDATE engine_instances SET state = 'draining' WHERE id = 'one'")
        found.refresh_fleet()
        hear(found, 75, "Healthy", "", "two")
        yield found


def take(session: DatabaseSession, *events: Event) -> None:
    session.save_changes(planned(session, *events), ())


def replace_tenant(session: DatabaseSession) -> None:
    """Its namespace is made anew: the tenant that has its name now is elsewhere, and nothing of the former exists."""
    take(session, *in_namespace(("latter", 60_000), changed(70, uid="uid-2", epoch=60_000)))


def retire(session: DatabaseSession) -> None:
    take(session, ordered(1, RetireEngineInstance("one", is_lost=True)))


def end_lost(session: DatabaseSession, *partitions: int) -> int:
    """As planners do by the clock; returns how many objects were found."""
    with session.connection() as connection:
        events, _ = find_lost_objects(connection, at(1000), partitions, 10, None)
    take(session, *events)
    return len(events)


def hear(session: DatabaseSession, second: int, health: str, reason: str, instance: str = "one") -> None:
    told = EngineHealth(health, reason, "", "3.2.11", None)
    take(session, Event(Observation("", "", instance, "", "", at(second), told), 0, ""))


def approved(session: DatabaseSession) -> Event:
    """That the agent of "one" removes what it keeps."""
    kept = session.fleet_reader.load_kept_orphans(["one"])["one"]
    return Event(Command("", "", "", at(82), OrphansApproved("one", kept.digest)), 0, "")


def tried(database: Database) -> tuple[int, str]:
    """What ``gitopsctl engines retire one --lost --dry-run`` says."""
    environment = {"DATABASE_OWNER_URL": database.owner_url}
    result = CliRunner(env=environment).invoke(engines.app, ["retire", "one", "--lost", "--dry-run"])
    return result.exit_code, result.output


def test_instance_when_it_is_tried_whether_it_is_lost_then_its_tenants_and_its_health_count_as_they_are(
    session: DatabaseSession, database: Database
) -> None:
    code, told = tried(database)
    assert (code, "nothing was ever heard of engine instance one" in told) == (1, True)
    hear(session, 79, "Down", "ApiFailing")
    code, told = tried(database)
    assert (code, "they have heard of no instance at all" in told) == (1, True)
    hear(session, round((datetime.now(UTC) - at(0)).total_seconds()), "Healthy", "", "two")
    code, told = tried(database)
    assert (code, "engine instance one still has tenants: 1, 0 of them on their way" in told) == (1, True)
    replace_tenant(session)
    hear(session, 80, "Healthy", "")
    code, told = tried(database)
    assert (code, "engine instance one is heard of: Healthy" in told) == (1, True)
    hear(session, 90, "Down", "ApiFailing")
    assert tried(database) == (0, "one: would be accepted\n")


def test_objects_when_their_instance_is_lost_then_they_count_as_removed_for_the_planner_of_their_tenant_alone(
    session: DatabaseSession, database: Database
) -> None:
    """They are of a former tenant, which nobody moves."""
    replace_tenant(session)
    assert rows(database, HELD) == [("one", "absent"), ("two", "present")]
    assert end_lost(session, 0) == 0
    retire(session)
    session.tenants.forget_tenants()
    session.refresh_fleet()
    assert session.fleet.instances["one"].retired
    assert end_lost(session, 1, 2) == 0
    while end_lost(session, 0):
        pass
    assert rows(database, "SELECT DISTINCT engine_instance_id FROM engine_resources") == [("two",)]
    assert rows(database, PLACED) == [("two", False)]
    session.refresh_fleet()
    assert session.fleet.instances.keys() == {"two"}
    told = [str(message) for (message,) in rows(database, "SELECT message FROM audit_records WHERE kind <> 'Move'")]
    assert [each for each in told if "what gitopsdepl-uid-1 made may be left behind" in each]


def test_objects_when_their_tenant_is_parked_then_they_stay_until_it_is_not(
    session: DatabaseSession, database: Database
) -> None:
    replace_tenant(session)
    retire(session)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(
            "INSERT INTO parked_tenants (tenant_id, workspace, namespace, partition, error, parked_at)"
            " SELECT id, workspace, namespace, partition, '', now() FROM tenants WHERE former_since > 0"
        )
    assert end_lost(session, 0) == 0


def test_objects_when_some_stay_whatever_is_told_of_them_then_the_others_have_their_turn_and_all_have_it_again(
    session: DatabaseSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is done here with what is found; a round is over when a look finds less than it may."""
    replace_tenant(session)
    retire(session)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(MORE, (["a", "b", "c", "d"],))
    found: list[list[str]] = []

    def look_again(events: list[Event]) -> None:
        found.append([event.message.name for event in events if isinstance(event.message, Observation)])

    planner: Any = SimpleNamespace(
        session=session, clock=SystemClock(), consumer=SimpleNamespace(partitions=[0]), apply_due_events=look_again
    )
    monkeypatch.setattr(periodic_tasks, "NOTICED_AT_ONCE", 2)
    tasks = PeriodicTasks(timedelta(days=1))
    for _ in range(4):
        tasks._end_lost(planner)
    assert found == [["a", "b"], ["c", "d"], ["gitopsdepl-uid-1"], ["a", "b"]]


def test_remedy_when_its_instance_is_retired_as_lost_then_it_is_over_at_once_and_nothing_tells_of_the_instance(
    session: DatabaseSession, database: Database
) -> None:
    hear(session, 80, "Down", "ApiFailing")
    replace_tenant(session)
    take(session, Event(Observation("", "", "one", "", "", at(81), OrphansKept(9, 1, ("Secret/odd",), ())), 0, ""))
    take(session, Event(RemediesDue(), 0, ""))
    take(session, approved(session))
    assert rows(database, APPROVED) == [(1,)]
    retire(session)
    with session.connection() as connection:
        assert is_remedy_due(connection, at(1000), is_on=True)
        assert forget_retired(connection) == 3
        assert count_kept_orphans(connection, [0]) == 0
    assert rows(database, APPROVED) == [(0,)]
    take(session, Event(RemediesDue(), 0, ""))
    with session.connection() as connection:
        assert set(count_remediations(connection).values()) == {0}
        assert not is_remedy_due(connection, at(10**6), is_on=True)
