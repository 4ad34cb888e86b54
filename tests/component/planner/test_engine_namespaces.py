"""Namespaces that engine instances and tenants may not share, in PostgreSQL: who comes second is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from services.common.messages import AddEngineCluster, AddEngineInstance, FleetOrder, Order, RetireEngineInstance
from services.kinds.gitops_deployment.catalogue import PLATFORM_NAMESPACE
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Due, Event
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed

MISTAKE = AddEngineInstance("mistake", "default", NAMESPACE, "argocd", "shared", "", "general", 10)
ORDERS = "SELECT subject, outcome FROM fleet_orders ORDER BY ordered_at"
REFUSED = "SELECT name, pending_reason FROM deployments WHERE pending_reason <> ''"
APPLICATIONS = "SELECT tenant_namespace FROM engine_resources WHERE kind = 'Application'"


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


def take(session: DatabaseSession, *events: Event) -> None:
    for part in split_at_markers(events):
        session.save_changes(plan_batch(part, session, Policy(), at(1000)), ())


def ordered(second: int, order: Order) -> Event:
    return Event(FleetOrder(UUID(int=second), "ada", at(second), order), 0, "")


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url) as owner:
        return owner.execute(query.encode()).fetchall()


def planner_of(session: DatabaseSession, looks: list[Event], partition: int = 0) -> Any:
    """One that has the tenants of a partition, and notes what it looks at."""

    def look_again(events: Sequence[Event]) -> None:
        looks.extend(events)
        take(session, *events)

    return SimpleNamespace(
        session=session, policy=Policy(), consumer=SimpleNamespace(partitions=[partition]), apply_due_events=look_again
    )


CASES = {
    "a tenant's of a workspace that is in the cluster": (WORKSPACE, "default", "refused"),
    "one of a workspace that is elsewhere": ("other", "default", "accepted"),
    "one of another cluster": (WORKSPACE, "north", "accepted"),
}


@pytest.mark.parametrize(("workspace", "cluster", "outcome"), CASES.values(), ids=CASES)
def test_instance_when_a_tenant_has_its_namespace_then_it_is_refused_if_that_is_a_namespace_of_its_cluster(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database, workspace: str, cluster: str, outcome: str
) -> None:
    decides, plans = sessions
    take(plans, changed(1, workspace=workspace), changed(1, "other", namespace="team-b", uid="uid-b"))
    added = AddEngineInstance("two", cluster, NAMESPACE, "argocd", "shared", "", "general", 10)
    take(decides, ordered(1, AddEngineCluster("north", "")), ordered(2, added))
    assert rows(database, ORDERS) == [("north", "accepted"), ("two", outcome)]


def test_tenant_when_it_comes_to_an_instances_namespace_then_it_is_deployed_as_soon_as_that_is_retired(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    decides, plans = sessions
    take(decides, ordered(1, MISTAKE))
    take(plans, changed(1), changed(1, "api", uid="uid-2"), changed(1, namespace="team-b", uid="uid-b"))
    assert rows(database, REFUSED) == [("web", PLATFORM_NAMESPACE.message), ("api", PLATFORM_NAMESPACE.message)]
    looks: list[Event] = []
    planner = planner_of(plans, looks)
    PeriodicTasks._look_at_freed_namespaces(planner)
    assert looks == [], "it is an engine's"
    take(decides, ordered(2, RetireEngineInstance("mistake")))
    PeriodicTasks._look_at_freed_namespaces(planner)
    assert len(rows(database, REFUSED)) == 2, "it has not read the fleet since"
    plans.refresh_fleet()
    looks.clear()
    PeriodicTasks._look_at_freed_namespaces(planner)
    assert [event.message.namespace for event in looks if isinstance(event.message, Due)] == [NAMESPACE]
    assert (rows(database, REFUSED), len(rows(database, APPLICATIONS))) == ([], 3)
    PeriodicTasks._look_at_freed_namespaces(planner)
    assert len(looks) == 1


def test_tenant_when_its_planner_has_never_known_of_the_instance_then_it_is_deployed_all_the_same(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    before, after = sessions
    take(before, ordered(1, MISTAKE), changed(1))
    take(before, ordered(2, RetireEngineInstance("mistake")))
    assert len(rows(database, REFUSED)) == 1
    looks: list[Event] = []
    PeriodicTasks._look_at_freed_namespaces(planner_of(after, looks, partition=1))
    assert looks == [], "it is another planner's"
    PeriodicTasks._look_at_freed_namespaces(planner_of(after, looks))
    assert (rows(database, REFUSED), rows(database, APPLICATIONS)) == ([], [(NAMESPACE,)])


def test_tenant_when_its_namespace_is_the_platforms_whoever_was_there_then_nobody_looks_at_it_again(
    sessions: tuple[DatabaseSession, DatabaseSession], database: Database
) -> None:
    session, _ = sessions
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "old", "openshift-gitops")
        owner.execute("UPDATE engine_instances SET state = 'retired' WHERE id = 'old'")
    take(session, changed(1, namespace="openshift-gitops"))
    assert len(rows(database, REFUSED)) == 1
    looks: list[Event] = []
    PeriodicTasks._look_at_freed_namespaces(planner_of(session, looks))
    assert looks == []
