"""The newest complete list of a workspace: how old it is, and which commands are late because of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from prometheus_client import REGISTRY

from services.cli.installation import workspaces
from services.common.kafka import COMMANDS, LogExtent, TopicPartition
from services.planner.database import periodic_queries
from services.planner.database.session import DatabaseSession
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from services.planner.pipeline.gauges import set_list_ages
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import ENVIRONMENT, at, changed, environment, resync

KIND = "GitOpsDeployment"
PARTITIONS = [0, 1]
NOW = datetime.fromtimestamp(1_000, UTC)


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A session on a database with two workspaces."""
    for name in ("local", "dead"):
        with psycopg.connect(database.owner_url) as owner:
            workspaces.make_tables(owner, name)
        with psycopg.connect(database.owner_url) as owner:
            workspaces.move_rows(owner, name)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        yield opened


def complete(session: DatabaseSession, epoch_seconds: int, partitions: list[int] = PARTITIONS) -> None:
    """A list of workspace ``local`` that began then."""
    marker = resync(1, epoch=epoch_seconds * 1000)
    events = [replace(marker, partition=number) for number in partitions]
    session.save_changes(plan_batch(events, session, Policy(), at(1000)), ())


def ages(session: DatabaseSession, partitions: list[int] = PARTITIONS) -> dict[tuple[str, str], float]:
    with session.connection() as connection:
        return periodic_queries.list_ages(connection, [KIND], partitions, NOW)


def test_age_when_one_workspace_of_two_never_listed_then_it_is_told_of_both(session: DatabaseSession) -> None:
    complete(session, 400)
    assert ages(session) == {("local", KIND): 600.0, ("dead", KIND): math.inf}


def test_age_when_partitions_differ_then_the_oldest_list_counts(session: DatabaseSession) -> None:
    complete(session, 400)
    complete(session, 900, [1])
    assert [ages(session, [each])["local", KIND] for each in PARTITIONS] == [600.0, 100.0]
    assert ages(session)["local", KIND] == 600.0


def test_age_when_another_planner_tells_it_then_it_goes_on_from_the_same_list(
    session: DatabaseSession, database: Database
) -> None:
    complete(session, 400)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as other:
        assert ages(other)["local", KIND] == 600.0


def test_age_when_a_list_of_before_comes_late_then_it_stays(session: DatabaseSession) -> None:
    complete(session, 400)
    complete(session, 300)
    assert ages(session)["local", KIND] == 600.0


def test_age_when_a_planner_has_no_partition_then_it_tells_none(session: DatabaseSession) -> None:
    assert ages(session, []) == {}


def test_age_when_a_planner_counts_then_its_metric_tells_it_of_every_workspace_and_kind(
    session: DatabaseSession,
) -> None:
    complete(session, 400)
    clock = SimpleNamespace(now=lambda: NOW)
    planner: Any = SimpleNamespace(clock=clock, policy=Policy(), consumer=SimpleNamespace(partitions=PARTITIONS))
    with session.connection() as connection:
        set_list_ages(planner, connection)

    def told(workspace: str, kind: str) -> float | None:
        labels = {"service": "planner", "workspace": workspace, "kind": kind}
        return REGISTRY.get_sample_value("gitops_complete_epoch_age_seconds", labels)

    assert (told("local", KIND), told("local", ENVIRONMENT)) == (600.0, math.inf)
    assert told("dead", KIND) == math.inf


def tell_late(session: DatabaseSession) -> list[str]:
    """A resource that nobody knows, of an epoch before that of the list; returns which are known then."""
    events = [changed(1, "late", epoch=399_000), environment(1, "late", epoch=399_000)]
    changes = plan_batch(events, session, Policy(), at(1000))
    return [type(row).__name__ for row in (*changes.written.deployments, *changes.written.plain_resources)]


def test_command_when_its_epoch_is_older_than_the_list_then_a_resource_that_nobody_knows_does_not_come_of_it(
    session: DatabaseSession, database: Database
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "engine-1", "argocd-1")
    session.refresh_fleet()
    complete(session, 400)
    assert tell_late(session) == ["PlainResource"], "its kind was not listed"
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        assert tell_late(successor) == ["PlainResource"]


def test_log_when_it_is_made_anew_then_lists_of_the_former_one_make_no_command_late(
    session: DatabaseSession, database: Database
) -> None:
    """Its epochs may be lower: no message is left from which a watcher would know better."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "engine-1", "argocd-1")
    log, other = TopicPartition(COMMANDS, 0), TopicPartition(COMMANDS, 1)
    session.claim_partitions([log, other], {log: LogExtent("a", 0, 9), other: LogExtent("a", 0, 9)})
    complete(session, 400)
    session.claim_partitions([log, other], {log: LogExtent("b", 0, 3), other: LogExtent("a", 0, 9)})
    session.refresh_fleet()
    assert tell_late(session) == ["Deployment", "PlainResource"]
    assert ages(session, [1])["local", KIND] == 600.0, "the other partition is the same as before"


def test_list_when_it_is_forgotten_then_its_age_is_infinite(session: DatabaseSession) -> None:
    complete(session, 400)
    with session.connection() as connection:
        assert periodic_queries.forget_lists(connection, datetime.fromtimestamp(400, UTC)) == 0
        assert periodic_queries.forget_lists(connection, datetime.fromtimestamp(401, UTC)) == len(PARTITIONS)
    assert ages(session)["local", KIND] == math.inf


def test_lists_when_of_another_kind_then_they_are_not_this_ones(session: DatabaseSession) -> None:
    complete(session, 400)
    with session.connection() as connection:
        told = periodic_queries.list_ages(connection, [KIND, ENVIRONMENT], PARTITIONS, NOW)
    assert told["local", ENVIRONMENT] == math.inf
