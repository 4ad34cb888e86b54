"""A planner that ends before any one of its effects, and is started again: all is as if it had never ended.

The effects are not listed here: every round trip to PostgreSQL is one, found where psycopg makes it, and so is every
dead letter and every acknowledgement to Kafka. So a step that is added to the code is stopped at without a new test.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from services.common.errors import Poison, Retry
from services.common.kafka import DeadLetterLimit, OffsetTracker, TopicPartition, observations_topic
from services.kinds.registry import REGISTRY
from services.planner.database.session import DatabaseSession
from services.planner.database.tables.metadata import METADATA
from services.planner.domain.events import Event
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.engines.available import ENGINES
from services.planner.pipeline import batch_planning
from services.planner.pipeline.batch_consumer import BatchConsumer
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.sweeping import due_sweep
from tests.component.planner.years import LIMITS, MONTH, YearsClock, years
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import changed
from tests.unit.planner.pipeline.test_loop import DeadLetterQueue
from tests.unit.planner.world import FLEET

TOPIC = "gitops.commands"
SOURCE = TopicPartition(TOPIC, 0)
TAKEN_AT_ONCE = 60
BEFORE = 6
"""Months; in the next one a list is refused."""
UNREADABLE = b"not a message"
TIMES = {"created_at", "updated_at"}
HIDDEN = {
    "consumer_offsets": {"owner", "number"},
    "parked_events": {"owner", "number"},
    "sweep_parts": {"owner", "number"},
    "engine_clusters": {"ordered_at"},
}
"""Of some tables what else is another each time: the fixture's cluster is added anew."""
"""Columns that PostgreSQL's own clock writes."""


class Crash(BaseException):
    """The process ends here. No ``except Exception`` goes on after it."""


@dataclass
class Effects:
    """Counts effects on the world outside of the process, and ends the process before one of them."""

    fatal: int = -1
    done: int = 0
    is_counting: bool = False

    def happen(self) -> None:
        if self.is_counting:
            self.done += 1
            if self.done == self.fatal:
                raise Crash


@dataclass
class PlayedConsumer:
    """The log from the database's offsets on; acknowledgements are effects."""

    log: Sequence[bytes]
    effects: Effects
    offsets: OffsetTracker = field(default_factory=OffsetTracker)
    _commands: str = TOPIC
    _fleet_orders: str = ""

    poll = BatchConsumer.poll_batch
    partitions = BatchConsumer.partitions
    fleet_partition = None
    reporting_clusters = frozenset({"default"})
    spans_of = BatchConsumer.spans_of
    _is_of_observations = staticmethod(lambda _: None)
    has_taken_in = BatchConsumer.has_taken_in
    _starts = BatchConsumer._starts

    def __post_init__(self) -> None:
        self._consumer = self

    def sources_of_observations(self, number: int, engine_cluster: str) -> list[TopicPartition]:
        return [TopicPartition(observations_topic(engine_cluster), number)]

    def find_ends(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(sources, 0)

    def are_assigned(self, _: object) -> bool:
        return True

    def poll_batch(self, limit: int, timeout_seconds: float) -> Any:
        first = self.offsets.next_offset(SOURCE) or 0
        tracked = [self.offsets.track_offset(SOURCE, each) for each in range(first, min(first + limit, len(self.log)))]
        return [
            consumed(TOPIC, each.offset, b"%d" % each.offset, self.log[each.offset])._replace(tracked=each)
            for each in tracked
            if each is not None
        ]

    def acknowledge_batch(self, batch: Any) -> None:
        self.effects.happen()
        BatchConsumer.acknowledge_batch(self, batch)


class Pickled:
    """Events as messages."""

    def decode_message(self, value: bytes) -> Any:
        if value == UNREADABLE:
            raise Poison("not a message")
        return pickle.loads(value).message  # noqa: S301 - written by this test


class CountedLetters(DeadLetterQueue):
    """Each letter is an effect."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects = effects

    def send_letter(self, *arguments: Any) -> Any:
        self._effects.happen()
        return super().send_letter(*arguments)


@dataclass
class Life:
    """Planners, one after another, on one log and one database."""

    database: Database
    log: Sequence[bytes]
    effects: Effects
    letters: CountedLetters
    failing: set[str]

    def run_process(self) -> None:
        """One process, from its start to where nothing is left to do; or to its crash."""
        clock = YearsClock()
        clock.seconds = BEFORE * MONTH + 7200
        with closing(DatabaseSession(self.database.planner_url, ENGINES)) as session:
            self.effects.is_counting = True
            try:
                consumer = PlayedConsumer(self.log, self.effects)
                consumer.offsets.assign_partitions(session.claim_partitions([SOURCE]))
                planner = self._planner(session, consumer, clock)
                while (batch := consumer.poll(TAKEN_AT_ONCE, 0)).messages:
                    planner.run_batch(batch)
                self.failing.clear()
                while due_sweep(session) is not None:
                    planner.periodic(planner.periodic_planner)
                    clock.seconds += 1
                for _ in range(3):
                    planner.periodic(planner.periodic_planner)
                    clock.seconds += 601
            finally:
                self.effects.is_counting = False

    def _planner(self, session: DatabaseSession, consumer: PlayedConsumer, clock: YearsClock) -> Planner:
        limit = DeadLetterLimit("planner", 0.5, 3)
        decoder = Decoder({TOPIC: Pickled()}, self.letters, limit, consumer.offsets)  # type: ignore[dict-item, arg-type]
        return Planner(
            consumer=consumer,
            decoder=decoder,
            session=session,
            policy=Policy(guard=SweepGuard(share=0.5, minimum=2), limits=REGISTRY.limits(LIMITS)),
            batch_limit=TAKEN_AT_ONCE,
            periodic=PeriodicTasks(timedelta(days=30), timedelta(days=15)),
            find_cluster_topics=lambda _: {},
            clock=clock,
        )

    def contents(self) -> dict[str, Any]:
        """All rows of all tables, less what only tells when they were written, and by whom."""
        with psycopg.connect(self.database.owner_url, row_factory=psycopg.rows.dict_row) as owner:
            return {name: self._rows(owner, name) for name in METADATA.tables}

    def _rows(self, owner: Any, table: str) -> list[Any]:
        rows = owner.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall()
        hidden = TIMES | HIDDEN.get(table, set())
        return sorted(({key: row[key] for key in row if key not in hidden} for row in rows), key=repr)

    def forget(self) -> None:
        """An empty database with the fleet, and nothing sent yet."""
        with psycopg.connect(self.database.owner_url) as owner:
            tables = sql.SQL(", ").join(sql.Identifier(name) for name in METADATA.tables)
            owner.execute(sql.SQL("TRUNCATE {}").format(tables))
            for each in FLEET:
                add_instance(owner, each.id, each.namespace)
        self.letters.sent.clear()


@pytest.fixture
def recorded(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The messages of a month with everything in it, and one that nobody understands; a tenant will be parked."""
    log: list[bytes] = []
    with years(database, monkeypatch) as lived, monkeypatch.context() as patched:
        lived.tenants, lived.deployments, lived.runs, lived.shops = 1, 3, 2, ()
        lived.clock.seconds = BEFORE * MONTH
        take = type(lived).consume

        def recording(self: Any, events: Sequence[Event]) -> None:
            log.extend(pickle.dumps(event) for event in events)
            take(self, events)

        patched.setattr(type(lived), "consume", recording)
        lived.month = BEFORE
        lived.live_through_month()
    parked = [changed(9_000_000 + number, f"p-{number}", uid=f"p-{number}", namespace="parked") for number in range(3)]
    return [*log[: len(log) // 2], UNREADABLE, *map(pickle.dumps, parked), *log[len(log) // 2 :]]


@pytest.fixture
def life(database: Database, recorded: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Life:
    effects, failing = Effects(), set[str]()
    wait = psycopg.Connection.wait

    def counted(self: Any, generator: Any, *arguments: Any, **named: Any) -> Any:
        effects.happen()
        return wait(self, generator, *arguments, **named)

    def plan_or_fail(state: Any, *arguments: Any) -> Any:
        if state.tenant.namespace in failing:
            raise ValueError("a rule fails")
        return plan(state, *arguments)

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    monkeypatch.setattr(batch_planning, "plan", plan_or_fail)
    return Life(database, recorded, effects, CountedLetters(effects), failing)


def is_crash(error: BaseException | None) -> bool:
    """Whether it is one, or came of one: between the statements of a pipeline psycopg tells it in its own words."""
    return error is not None and (isinstance(error, Crash) or is_crash(error.__cause__ or error.__context__))


def lived(life: Life, fatal: int) -> tuple[dict[str, Any], Counter[int]]:
    """What there is at the end, and the dead letters by offset; the first process ends before effect ``fatal``."""
    life.forget()
    life.failing.add("parked")
    life.effects.fatal, life.effects.done = fatal, 0
    try:
        life.run_process()
    except (Crash, Retry) as error:
        if not is_crash(error):
            raise
        life.run_process()
    return life.contents(), Counter(life.letters.sent)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "every", [pytest.param(5, id="each fifth"), pytest.param(1, id="each", marks=pytest.mark.long)]
)
def test_planner_when_it_ends_before_any_one_of_its_effects_then_its_successor_ends_where_it_would_have(
    life: Life, every: int
) -> None:
    expected, letters = lived(life, fatal=-1)
    number = life.effects.done
    assert number > 30, "the effects are not seen any more"
    assert (letters.total(), expected["parked_tenants"]) == (1, [])
    assert {row["state"] for row in expected["sync_runs"]} == {"Ended"}
    for fatal in range(1, number + 1, every):
        found, sent = lived(life, fatal)
        different = {name for name in expected if found[name] != expected[name]}
        assert different == set(), f"before effect {fatal} of {number}"
        # A dead letter may come twice, which its offset tells; but none is missing, and nothing else becomes one.
        assert sent.keys() == letters.keys()
        assert sent.total() <= 2
