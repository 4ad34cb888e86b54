"""Whether changes of others wait, by the audit in PostgreSQL, and whether a move may begin then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pytest

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.move_queries import OF_LATE, find_waiting_clusters, is_move_due
from services.planner.database.session import DatabaseSession
from services.planner.domain.fleet.moves.pace import STANDING
from services.planner.domain.fleet.rows import MovePath, MoveStep
from services.planner.engines.available import ENGINES
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at

NOW = at(1000)
WAIT = timedelta(seconds=1)
SLOW, QUICK = timedelta(seconds=2), timedelta(milliseconds=20)
TENANTS = 40
"""Who change something; of them two are one in twenty, and three are more."""
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
VALUES (gen_random_uuid(), gen_random_uuid(), 'local', %(namespace)s, %(kind)s, 'a', 1, %(action)s, '', %(state)s,
        %(message)s, '', %(seen)s, %(ended)s)
"""


@dataclass
class Fleet:
    """Two instances in engine cluster ``south``, one in ``north``, and what their tenants do."""

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
    ) -> None:
        """One that ended now, or waits still."""
        given = {"namespace": tenant, "kind": kind, "action": action, "state": state, "message": message}
        self.owner.execute(CHANGE, {**given, "seen": ended - took, "ended": ended})

    def waiting(self) -> frozenset[str] | None:
        return find_waiting_clusters(self.owner, NOW, WAIT)


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


@pytest.mark.parametrize(("slow", "waiting"), [(2, frozenset()), (3, frozenset({"default"}))])
def test_clusters_when_more_than_one_tenant_in_twenty_waits_for_long_then_changes_wait_there(
    fleet: Fleet, slow: int, waiting: frozenset[str]
) -> None:
    for number in range(3):
        fleet.add_change(fleet.add_tenant(), SLOW if number < slow else QUICK)
    fleet.add_change(fleet.add_tenant("three"), QUICK)
    assert fleet.waiting() == waiting


def test_clusters_when_nobody_else_changes_anything_then_one_change_says_it_of_its_own(fleet: Fleet) -> None:
    fleet.add_change(fleet.add_tenant("three"), SLOW)
    assert fleet.waiting() == {"north"}


OTHERS: dict[str, dict[str, Any]] = {
    "it has not ended yet": {"state": "Waiting"},
    "it ended so long ago": {"ended": NOW - OF_LATE},
    "it waits for what the tenant has to do": {"state": "Waiting", "message": "SecretNotFound: no Secret 'login'"},
    "it was refused": {"state": "Failed", "message": "the repository needs a login"},
    "it removes what was deployed": {"action": "delete"},
    "it is of what is checked": {"kind": "GitOpsDeploymentRepositoryCredential"},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=[*OTHERS])
def test_clusters_when_a_change_takes_long_then_it_counts_if_nobody_but_us_is_waited_for(
    fleet: Fleet, change: dict[str, Any]
) -> None:
    for _ in range(3):
        fleet.add_change(fleet.add_tenant(), SLOW, **change)
    assert fleet.waiting() == ({"default"} if change == {"state": "Waiting"} else frozenset())


def test_clusters_when_a_tenant_makes_many_changes_then_it_counts_by_the_quickest(fleet: Fleet) -> None:
    for _ in range(3):
        tenant = fleet.add_tenant()
        for took in (SLOW, QUICK, SLOW):
            fleet.add_change(tenant, took)
    assert fleet.waiting() == frozenset()


def test_clusters_when_who_waits_is_moved_then_nobody_else_does(fleet: Fleet) -> None:
    moved = [fleet.add_tenant() for _ in range(3)]
    for tenant in moved:
        fleet.add_change(tenant, SLOW)
        fleet.add_move(tenant, "pausing")
    assert fleet.waiting() == frozenset()
    fleet.owner.execute("UPDATE moves SET step = 'done' WHERE namespace = ANY(%s)", (moved,))
    assert fleet.waiting() == {"default"}


@pytest.mark.parametrize(("step", "path"), [("done", "whole"), ("preparing", "whole"), ("ordered", "forced")])
def test_clusters_when_no_move_waits_that_would_give_way_then_nobody_asks(
    fleet: Fleet, step: MoveStep, path: MovePath
) -> None:
    fleet.owner.execute("UPDATE moves SET step = %s, path = %s", (step, path))
    assert fleet.waiting() is None


PLACES: dict[str, tuple[dict[str, int], timedelta, MovePath, bool]] = {
    "all": ({}, timedelta(), "whole", True),
    "one, which is taken": ({"default": 1}, timedelta(), "whole", False),
    "one, taken by a move that stands": ({"default": 1}, STANDING, "whole", True),
    "two": ({"default": 2}, timedelta(), "whole", True),
    "one in another cluster": ({"north": 1}, timedelta(), "whole", True),
    "one, and nobody waits for the source": ({"default": 1}, timedelta(), "forced", True),
}


@pytest.mark.parametrize(("paced", "stands", "path", "is_due"), PLACES.values(), ids=[*PLACES])
def test_move_when_moves_give_way_then_it_is_due_if_there_is_a_place_by_then(
    fleet: Fleet, paced: dict[str, int], stands: timedelta, path: MovePath, is_due: bool
) -> None:
    fleet.owner.execute("UPDATE moves SET path = %s", (path,))
    fleet.add_move(fleet.add_tenant(), "preparing", since=NOW - stands)
    assert is_move_due(fleet.owner, NOW, 5, paced) == is_due


def test_session_when_moves_give_way_then_the_fleet_that_it_reads_says_so(fleet: Fleet, database: Database) -> None:
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        session.paced = {"default": 1}
        assert session.load_fleet_rows((), (), ()).paced == {"default": 1}
        session.abandon_transaction()
