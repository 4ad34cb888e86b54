"""Which instances rollouts close, in PostgreSQL: by the newest rollout of each release in each ring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any, get_args
from uuid import UUID

import psycopg
import pytest

from services.common.messages import RINGS
from services.planner.database.fleet_queries import load_fleet_rows
from services.planner.database.rollout_queries import load_closed
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import OVER, Rollout, RolloutStep
from services.planner.domain.fleet.rollouts.stages import STAGES
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.engines.available import ENGINES
from tests.component.conftest import Database
from tests.unit.planner.fleet.rolled import NEW, OLD, closed_by_rollouts, instance, told
from tests.unit.planner.given import at

EMPTY = "DELETE FROM engine_health; DELETE FROM engine_instances; DELETE FROM rollouts"
UNDER_WAY = sorted(set(get_args(RolloutStep)) - {*OVER, "ordered"})


def row(name: str, **changes: Any) -> EngineInstanceRow:
    return instance(name, engine_cluster="default", region="", **changes)


def rollout(number: int, **changes: Any) -> Rollout:
    ordered = Rollout(
        UUID(int=number), NEW, "", "canary,general", 60, False, "aborted", "canary", 0, False, "", "[]", "[]", "", 0, 0,
        "", "ada", at(number), at(number), at(number), None,
    )  # fmt: skip
    return replace(ordered, **changes)


def write(
    session: DatabaseSession,
    rows: Sequence[EngineInstanceRow],
    health: Sequence[InstanceHealth],
    rollouts: Sequence[Rollout],
) -> None:
    written = Changes(engine_instances=tuple(rows), engine_health=tuple(health), rollouts=tuple(rollouts))
    session.save_changes(BatchChanges(other=written), ())


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        yield session


CLOSED: dict[str, tuple[list[Rollout], set[str]]] = {
    "it was given up before its ring": ([rollout(1)], {"new"}),
    "and another is rolled out since": ([rollout(1), rollout(2, version="3.3.0", step="ordered", ring="")], {"new"}),
    "and another was rolled out since": ([rollout(1), rollout(2, version="3.3.0", step="done")], {"new"}),
    "and it came to other rings since": ([rollout(1), rollout(2, rings="canary", step="done")], {"new"}),
    "and it came to all rings since": ([rollout(1), rollout(2, step="done", ring="general")], set()),
    "a profile of it was given up": ([rollout(1, profile="lean")], set()),
    "it was aborted once the ring was its own": ([rollout(1, ring="general", stage=100)], set()),
    "its ring has gone back": ([rollout(1, ring="general", step="failed")], {"new"}),
    "its ring goes back": ([rollout(1, ring="general", step="reverting", stage=100)], {"new"}),
    "its ring is at the last stage": ([rollout(1, ring="general", step="soaking", stage=100)], {"old"}),
    "all releases were given up": ([rollout(1), rollout(2, version=OLD)], set()),
    "the other one's turn has not come": (
        [rollout(1, version=OLD), rollout(2, ring="general", step="moving")],
        {"new"},
    ),
}


@pytest.mark.parametrize(("rollouts", "closed"), CLOSED.values(), ids=CLOSED)
def test_instance_when_releases_are_rolled_out_one_after_the_other_then_the_newest_rollout_of_its_own_closes_it(
    database: Database, session: DatabaseSession, rollouts: list[Rollout], closed: set[str]
) -> None:
    rows = (row("old"), row("new"))
    health = (told("old", OLD), told("new", NEW))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(EMPTY)
    write(session, rows, health, rollouts)
    with psycopg.connect(database.planner_url) as planner:
        assert load_closed(planner) == closed
    session.refresh_fleet()
    assert {known for known, each in session.fleet.instances.items() if not each.accepting} == closed


def test_instances_when_fleets_are_drawn_then_those_are_closed_that_unit_tests_of_rollouts_close(
    database: Database, session: DatabaseSession
) -> None:
    choose, seen = Random(7), Counter[bool]()  # noqa: S311 - the same fleets each time
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        for _ in range(100):
            owner.execute(EMPTY)
            rows = [drawn_row(f"drawn-{number}", choose) for number in range(choose.randint(2, 10))]
            health = [each for known in rows for each in drawn_health(known, choose)]
            rollouts = drawn_rollouts(choose)
            write(session, rows, health, rollouts)
            known = load_fleet_rows(owner, ENGINES)
            assert known.closed == closed_by_rollouts(known, rollouts), rollouts
            seen.update(each in known.closed for each in known.instances)
    assert min(seen[True], seen[False]) > 50


def drawn_row(name: str, choose: Random) -> EngineInstanceRow:
    owner = choose.choice(["", "", "", "acme"])
    return row(
        name,
        ring=choose.choice(RINGS[1:]),
        state=choose.choice(["accepting", "accepting", "accepting", "full", "draining", "provisioning", "retired"]),
        wanted_version=choose.choice([None, OLD, NEW]),
        profile=choose.choice([None, None, "lean"]),
        engine_class="dedicated" if owner else "shared",
        dedicated_to=owner,
    )


def drawn_health(known: EngineInstanceRow, choose: Random) -> list[InstanceHealth]:
    """What its agent has told; none of one that is being installed, and of some others."""
    if known.is_unready or choose.random() < 0.2:
        return []
    return [told(known.id, choose.choice(["", OLD, NEW, NEW]), choose.choice(["Healthy", "Healthy", "Down"]))]


def drawn_rollouts(choose: Random) -> list[Rollout]:
    """The oldest first; the newest may be under way."""
    count = choose.randint(0, 6)
    return [
        drawn_rollout(number, choose, is_over=number < count or choose.random() < 0.4) for number in range(1, count + 1)
    ]


def drawn_rollout(number: int, choose: Random, *, is_over: bool) -> Rollout:
    rings = [ring for ring in RINGS if choose.random() < 0.7] or ["general"]
    return rollout(
        number,
        version=choose.choice([OLD, NEW]),
        profile=choose.choice(["", "", "lean"]),
        rings=",".join(rings),
        step=choose.choice(OVER if is_over else UNDER_WAY),
        ring=choose.choice([*rings, ""] if is_over else rings),
        stage=choose.choice([0, *STAGES]),
    )
