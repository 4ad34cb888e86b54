"""A planner that ends before any one of its effects, and is started again: all is as if it had never ended.

The effects are not listed here: every call of the session, every acknowledgement and every dead letter is one, and the
process ends before the n-th, for every n. What the session does in one such call is one transaction in PostgreSQL.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from services.common.errors import Poison
from services.common.kafka import DeadLetterLimit, OffsetTracker, TopicPartition
from services.planner.domain.events import Event
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.pipeline import batch_planning
from services.planner.pipeline.batch_consumer import BatchConsumer
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.loop import Planner
from tests.unit.common.kafka.messages import consumed
from tests.unit.fake_clock import FakeClock
from tests.unit.planner.given import (
    CREDENTIAL,
    at,
    changed,
    credential,
    environment,
    gone,
    resync,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.pipeline.test_loop import DeadLetterQueue, Memory
from tests.unit.planner.world import World

SOURCE = TopicPartition("gitops.commands", 0)
TAKEN_AT_ONCE = 4
UNREADABLE = 6
"""Offset of a message that nobody understands."""
PARKED = "parked"
"""Namespace of a tenant on which a rule fails at first."""
MANUAL = spec(type="manual")
LOG: list[Event] = [
    changed(1),
    secret(2),
    environment(3),
    changed(4, "manual", uid="uid-2", content=MANUAL),
    sync_run(5, deployment="manual"),
    changed(6, namespace=PARKED, uid="uid-p"),
    changed(7, "unreadable", uid="uid-u"),
    credential(8),
    sync_run(9, "later", "manual"),
    changed(10, "web", uid="uid-p", namespace=PARKED, generation=2),
    *(changed(10 + number, f"web-{number}", uid=f"uid-1{number}") for number in range(4)),
    resync(20, epoch=5),
    changed(21, generation=2, epoch=6),
    gone(22, "web-1", uid="uid-11"),
    resync(23, epoch=1),
    credential(23, "old-1", uid="uid-old-1"),
    credential(23, "old-2", uid="uid-old-2"),
    credential(24, epoch=8),
    resync(24, epoch=8, kind=CREDENTIAL),
    changed(24, "manual", uid="uid-2", content=MANUAL, generation=2, epoch=6),
]


class Crash(BaseException):
    """The process ends here. No ``except Exception`` goes on after it."""


@dataclass
class Effects:
    """Counts what a process does to the world, and ends it before the n-th effect."""

    fatal: int
    done: int = 0

    def happen(self) -> None:
        self.done += 1
        if self.done == self.fatal:
            raise Crash


class CountedSession:
    """Each call is an effect."""

    def __init__(self, memory: Memory, effects: Effects) -> None:
        self._memory, self._effects = memory, effects

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._memory, name)

        def call(*arguments: Any) -> Any:
            self._effects.happen()
            return found(*arguments)

        return call


class CountedLetters(DeadLetterQueue):
    """Each letter is an effect."""

    effects = Effects(fatal=-1)

    def send_letter(self, *arguments: Any) -> Any:
        self.effects.happen()
        return super().send_letter(*arguments)


class Offsets:
    """A message is its offset."""

    def decode_message(self, value: bytes) -> Any:
        if int(value) == UNREADABLE:
            raise Poison("not a message")
        return LOG[int(value)].message


@dataclass
class PlayedConsumer:
    """The log from the database's offset on; acknowledgements are effects."""

    effects: Effects
    offsets: OffsetTracker = field(default_factory=OffsetTracker)

    next_batch = BatchConsumer.poll_batch
    spans_of = BatchConsumer.spans_of
    _is_of_observations = staticmethod(lambda _: None)
    _starts = BatchConsumer._starts

    def __post_init__(self) -> None:
        self._consumer = self

    def poll_batch(self, limit: int, _: float) -> Any:
        first = self.offsets.next_offset(SOURCE) or 0
        tracked = [self.offsets.track_offset(SOURCE, each) for each in range(first, min(first + limit, len(LOG)))]
        found = [
            (each, consumed(SOURCE.topic, each.offset, b"%d" % each.offset, b"%d" % each.offset))
            for each in tracked
            if each
        ]
        return [message._replace(tracked=each) for each, message in found]

    def acknowledge_batch(self, batch: Any) -> None:
        self.effects.happen()
        BatchConsumer.acknowledge_batch(self, batch)  # type: ignore[arg-type]


class StandingClock(FakeClock):
    def now(self) -> datetime:
        return at(1000)


@dataclass
class Life:
    """Planners, one after another, on one log and one database."""

    failing: set[str]
    memory: Memory
    letters: CountedLetters = field(default_factory=CountedLetters)

    def run_process(self, effects: Effects) -> None:
        """One process, from its start to where nothing is left to do; or to its crash."""
        self.memory.world.abandon_transaction()
        self.memory.world.memory.clear()
        self.letters.effects = effects
        consumer: Any = PlayedConsumer(effects)
        consumer.offsets.assign_partitions({SOURCE: self.memory.offset})
        planner = self._planner(consumer, effects)
        while (batch := consumer.next_batch(TAKEN_AT_ONCE, 0)).messages:
            planner.run_batch(batch)
        self.failing.clear()
        world = self.memory.world
        while (due := world.due_sweep()) is not None:
            planner.periodic_planner.remove_part(due)
        for parked in list(world.parked.values()):
            planner.parked_replay.retry_parked(
                parked, [row for row in world.parked_events if row.tenant_id == parked.tenant_id], []
            )

    def _planner(self, consumer: Any, effects: Effects) -> Planner:
        decoder: Any = Decoder(
            {SOURCE.topic: Offsets()}, self.letters, DeadLetterLimit("planner", 0.5, 3), consumer.offsets
        )  # type: ignore[dict-item, arg-type]
        session: Any = CountedSession(self.memory, effects)
        policy = Policy(guard=SweepGuard(share=0.1, minimum=2, at_once=1))
        return Planner(
            consumer, decoder, session, policy, TAKEN_AT_ONCE, lambda _: None, lambda _: {}, clock=StandingClock()
        )


def lived(failing: set[str], fatal: int) -> tuple[World, Counter[int], int]:
    """The world at the end, the dead letters by offset, and how many effects the first process had."""
    failing.add(PARKED)
    life, effects = Life(failing, Memory()), Effects(fatal)
    try:
        life.run_process(effects)
    except Crash:
        life.run_process(Effects(fatal=-1))
    return life.memory.world, Counter(life.letters.sent), effects.done


def contents(world: World) -> dict[str, Any]:
    kept = {"refused": world.refused_sweeps, "parts": world.sweep_parts}
    return world.rows() | kept | {"parked": world.parked, "kept": world.parked_events}


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Namespaces of tenants on which a rule fails."""
    found: set[str] = set()

    def plan_or_fail(state: Any, *arguments: Any) -> Any:
        if state.tenant.namespace in found:
            raise ValueError("a rule fails")
        return plan(state, *arguments)

    monkeypatch.setattr(batch_planning, "plan", plan_or_fail)
    return found


def test_planner_when_it_ends_before_any_one_of_its_effects_then_its_successor_ends_where_it_would_have(
    failing: set[str],
) -> None:
    world, letters, number = lived(failing, fatal=-1)
    expected = contents(world)
    assert number > 20, "the effects are not seen any more"
    assert (letters, expected["parked"]) == (Counter({UNREADABLE: 1}), {})
    assert (len(expected["refused"]), expected["parts"]) == (1, {})
    assert {row.name for row in world.resources.values() if row.kind == CREDENTIAL} == {"login"}
    for fatal in range(1, number + 1):
        found, sent, _ = lived(failing, fatal)
        assert contents(found) == expected, f"before effect {fatal} of {number}"
        # A dead letter may come twice, which its offset tells; none is missing, and nothing else becomes one.
        assert sent.keys() == letters.keys()
        assert sent.total() <= 2
