"""A planner that ends in any step of a tenant's move, and is started again: the move ends as if it had never ended.

What agents do follows from rows, which are all that a planner tells them, and planners know nothing but rows and the
log. So the planner is ended before each of its transactions: those of the fleet, and those of the tenant. Within one of
them ``test_crashes.py`` ends it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from services.common.messages import (
    CancelMove,
    EngineHealth,
    FleetOrder,
    MoveTenant,
    Observation,
    Order,
    RetireEngineInstance,
)
from services.planner.database import session as session_module
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy, RemedyPolicy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from services.planner.rows.compiled import EngineRow
from tests.component.conftest import Database
from tests.component.planner.test_crashes import SOURCE, TAKEN_AT_ONCE, CountedLetters, Crash, Effects
from tests.component.planner.test_crashes import Life as CrashingLife
from tests.component.planner.test_crashes import PlayedConsumer as PlayedTenants
from tests.component.planner.years import YearsClock
from tests.unit.planner.fleet.test_moves import Agents
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, credential, environment, secret
from tests.unit.planner.tenant import MANUAL, REMOTE

NAME = (WORKSPACE, NAMESPACE)
ILL_SECONDS = 10
"""After which an instance is cordoned, and then evacuated."""
POLICY = Policy(
    moves_at_once=1,
    remedies=RemedyPolicy(after=timedelta(seconds=ILL_SECONDS), cool_down=timedelta(seconds=ILL_SECONDS)),
)
ROWS = f"SELECT {', '.join(each.name for each in fields(EngineRow))} FROM engine_resources ORDER BY 1, 2, 3, 4"  # noqa: S608 - names of columns
HERE = "SELECT engine_instance_id FROM tenants WHERE namespace = %s"
STEP = "SELECT step, path FROM moves WHERE namespace = %s"
ANOTHER_TENANT = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
SELECT %(id)s, 'local', 'another', 1, min(id) FROM engine_instances
"""
ANOTHER_MOVE = """
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since)
SELECT %(id)s, %(id)s, 'local', 'another', 1, min(id), max(id), 'withdrawing', false, '{}', '', 'ada', %(at)s, %(at)s
  FROM engine_instances
"""
ANOTHER = UUID(int=99)
"""A tenant that another planner has, and its move, the only one that may be under way."""
SETUP = (
    secret(1), environment(2), secret(3, "login", "repository-credential"), credential(4),
    changed(5, content=REMOTE), changed(6, "other", uid="uid-2", content=MANUAL),
)  # fmt: skip
Place = tuple[str, str]
"""Step and path of the move."""


@dataclass
class PlayedConsumer(PlayedTenants):
    """Of the planner that decides on the fleet, too; the brokers take what agents tell at once."""

    fleet_partition = 0

    def poll_batch(self, limit: int, timeout_seconds: float) -> Any:
        messages = super().poll_batch(limit, timeout_seconds)
        return [message._replace(timestamp=taken_at(message.value)) for message in messages]


def taken_at(value: bytes) -> float:
    """In seconds since 1970."""
    message = pickle.loads(value).message  # noqa: S301 - written by this test
    return float(message.observed_at.timestamp()) if isinstance(message, Observation) else 0.0


@dataclass
class Life(CrashingLife):
    """Planners, one after another; agents and Argo CDs, which stay."""

    clock: YearsClock = field(default_factory=YearsClock)
    places: list[Place] = field(default_factory=list)
    """Where the move is before each transaction of the planner."""

    def begin(self, fatal: int) -> None:
        """An empty world, and a planner that will end before the transaction of this number."""
        self.forget()
        self.log: list[bytes] = []
        self.agents = Agents(self)  # type: ignore[arg-type] - it looks at what is wanted alone
        self.effects.fatal, self.effects.done = -1, 0
        self.clock.seconds = 100
        self._start_process()
        self.live(lambda life: life.tell(SETUP))
        self.source, self.target = self._here(), next(each for each in ("engine-1", "engine-2") if each != self._here())
        self.effects.fatal, self.effects.done = fatal, 0
        self.places.clear()

    def live(self, stage: Callable[[Life], None]) -> None:
        """Something happens, and all that follows from it; the planner is started again if it ends meanwhile."""
        stage(self)
        try:
            self._settle()
        except Crash:
            self.session.close()
            self._start_process()
            self._settle()

    def tell(self, events: Iterable[Event]) -> None:
        self.log += [pickle.dumps(event) for event in events]

    def order(self, given: Order) -> None:
        number = len(self.log)
        self.tell([Event(FleetOrder(UUID(int=number), "ada", at(self.clock.seconds), given), 0, "")])

    def hear(self, instance: str, health: str, reason: str = "") -> None:
        """How an instance is, from its agent."""
        told = EngineHealth(health, reason, reason, "", None)
        self.tell([Event(Observation("", "", instance, "", "", at(self.clock.seconds), told), 0, "")])

    @property
    def engine(self) -> dict[int, EngineRow]:
        """What agents read."""
        with psycopg.connect(self.database.owner_url) as owner:
            return {number: EngineRow(*row) for number, row in enumerate(owner.execute(ROWS))}

    @property
    def ending(self) -> dict[str, Any]:
        """All that is there."""
        return self.contents() | {"live": self.agents.live, "deleted": self.agents.deleted}

    def place(self) -> Place:
        """Where the move is by now."""
        found: Place | None = self._row(STEP)
        return found if found is not None else ("", "")

    def _start_process(self) -> None:
        self.session = DatabaseSession(self.database.planner_url, ENGINES)
        self.consumer = PlayedConsumer(self.log, Effects())
        self.consumer.offsets.assign_partitions(self.session.claim_partitions([SOURCE]))
        self.planner = replace(self._planner(self.session, self.consumer, self.clock), policy=POLICY)

    def _settle(self) -> None:
        for _ in range(100):
            before = len(self.log), self.effects.done
            self._work(self.planner)
            self.tell(self.agents.reports())
            if before == (len(self.log), self.effects.done):
                return
        raise AssertionError("it never comes to rest")

    def _work(self, planner: Planner) -> None:
        self.effects.is_counting = True
        tasks = PeriodicTasks(timedelta(days=30))
        try:
            while (batch := self.consumer.poll(TAKEN_AT_ONCE, 0)).messages:
                planner.run_batch(batch)
            self.session.refresh_fleet()
            tasks._look_at_remedies(planner.periodic_planner)
            tasks._look_at_moves(planner.periodic_planner)
            tasks._take_steps(planner.periodic_planner)
            tasks._end_lost(planner.periodic_planner)
        finally:
            self.effects.is_counting = False

    def _here(self) -> str:
        return str(self._row(HERE)[0])

    def _row(self, query: Any) -> Any:
        with psycopg.connect(self.database.owner_url) as owner:
            return owner.execute(query, (NAMESPACE,)).fetchone()

    def execute(self, statement: Any) -> None:
        """What another planner has written."""
        with psycopg.connect(self.database.owner_url) as owner:
            owner.execute(statement, {"id": ANOTHER, "at": at(1)})


@pytest.fixture
def life(database: Database, monkeypatch: pytest.MonkeyPatch) -> Life:
    save, found = session_module.save, Life(database, [], Effects(), CountedLetters(Effects()), set())

    def counted(connection: Any, changes: Changes, *arguments: Any) -> Any:
        if changes != Changes() and found.effects.is_counting:  # a move that cannot begin yet is looked at for nothing
            found.places.append(found.place())
            found.effects.happen()
        return save(connection, changes, *arguments)

    monkeypatch.setattr(session_module, "save", counted)
    return found


def moved(life: Life) -> None:
    """It waits for its turn first."""
    life.execute(ANOTHER_TENANT)
    life.execute(ANOTHER_MOVE)
    life.live(lambda life: life.order(MoveTenant(*NAME, life.target)))
    assert life.place()[0] == "ordered"
    life.live(lambda life: life.execute("UPDATE moves SET step = 'done' WHERE id = %(id)s"))


def cancelled(life: Life) -> None:
    """As the target's agent does nothing for a while."""
    life.agents.silent = life.target
    life.live(lambda life: life.order(MoveTenant(*NAME, life.target)))
    life.live(lambda life: life.order(CancelMove(*NAME)))
    life.agents.silent = ""
    life.live(lambda life: None)


def evacuate(life: Life) -> set[tuple[str, str]]:
    """Nobody can reach the source any more; returns the Applications that are there."""
    life.agents.silent = life.source
    lost = {place for place in life.agents.live if place[0] == life.source}
    life.agents.live -= lost
    life.live(lambda life: life.hear(life.source, "Down", "ApiFailing"))
    for _ in range(2):
        life.clock.seconds += ILL_SECONDS
        life.live(lambda life: None)
    assert life.place() == ("withdrawing", "fenced")
    return lost


def fenced(life: Life) -> None:
    """Nobody can reach the source, which is evacuated for it, and then it is back with all that it had."""
    lost = evacuate(life)
    life.agents.silent = ""
    life.agents.live |= lost
    life.live(lambda life: life.hear(life.source, "Healthy"))


def given_up(life: Life) -> None:
    """Likewise, but it is lost, and an operator says so."""
    evacuate(life)
    life.live(lambda life: life.order(RetireEngineInstance(life.source, is_lost=True)))
    assert life.place() == ("done", "fenced")
    assert {row.engine_instance_id for row in life.engine.values()} == {life.target}


def forced(life: Life) -> None:
    """An operator has ordered it, and has it wait for the source, when nobody can reach that any more."""
    life.agents.silent = life.source
    life.live(lambda life: life.order(MoveTenant(*NAME, life.target)))
    assert life.place() == ("pausing", "whole")
    fenced(life)


WAY = ("preparing", "adopting", "withdrawing")
STORIES: dict[Callable[[Life], None], set[Place]] = {
    moved: {("", "")} | {(step, "whole") for step in ("ordered", "reserved", "pausing", "releasing", *WAY)},
    cancelled: {(step, "whole") for step in ("reserved", "preparing", "cancelling")},
    fenced: {("reserved", "forced"), ("preparing", "forced"), ("adopting", "fenced"), ("withdrawing", "fenced")},
    given_up: {("withdrawing", "fenced")},
    forced: {("pausing", "whole"), ("pausing", "forced")},
}
"""With where the planner ends."""
OFTEN = [
    pytest.param(False, id="once in each step"),
    pytest.param(True, id="before each transaction", marks=pytest.mark.long),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("each", OFTEN)
@pytest.mark.parametrize(("story", "places"), STORIES.items(), ids=[each.__name__ for each in STORIES])
def test_planner_when_it_ends_in_any_step_of_a_move_then_the_move_ends_as_if_it_had_not(
    life: Life, story: Callable[[Life], None], places: set[Place], each: bool
) -> None:
    life.begin(fatal=-1)
    story(life)
    expected, last = life.ending, {place: number for number, place in enumerate(life.places, 1)}
    assert places <= last.keys()
    assert expected["deleted"] == []
    assert {place for place, _ in expected["live"]} == {life._here()}
    for fatal in range(1, life.effects.done + 1) if each else [last[place] for place in sorted(places)]:
        life.session.close()
        life.begin(fatal)
        story(life)
        found = life.ending
        assert {name for name in expected if found[name] != expected[name]} == set(), f"transaction {fatal}"
    life.session.close()
