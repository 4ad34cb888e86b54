"""What the loop does when a step fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.common.errors import Poison, Retry, Wait
from services.planner.consume import Batch
from services.planner.engines import argocd
from services.planner.events import Event
from services.planner.offsets import Span
from services.planner.persist import Fenced
from services.planner.rows import Changes, State
from services.planner.rules import Rules
from services.planner.service import Planner
from tests.unit.planner.given import changed
from tests.unit.planner.world import World

TOPIC = "gitops.commands"


class Message:
    """As much of a Kafka message as the loop looks at."""

    def __init__(self, offset: int, partition: int = 0) -> None:
        self._offset, self._partition = offset, partition

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


class Log:
    """A consumer that only remembers."""

    def __init__(self) -> None:
        self.committed: list[Span] = []
        self.rewound = 0

    def done(self, spans: Sequence[Span]) -> None:
        self.committed += spans

    def rewind(self) -> None:
        self.rewound += 1

    def fence(self, partitions: Iterable[int]) -> list[Span]:
        return [Span(TOPIC, partition, 0, 0) for partition in partitions]


class Decoding:
    """Message n is a change of deployment n."""

    def __init__(self) -> None:
        self.given_up: list[int] = []

    def __call__(self, messages: Iterable[Any]) -> list[Event]:
        return [changed(1, f"web-{m.offset()}", uid=f"uid-{m.offset()}") for m in messages]

    def give_up(self, refused: Sequence[tuple[Any, Exception]]) -> None:
        self.given_up += [message.offset() for message, _ in refused]


@dataclass
class Memory:
    """A store that fails as told: once with each of ``failures``, always for ``poisonous`` deployments."""

    failures: list[Exception] = field(default_factory=list)
    poisonous: frozenset[str] = frozenset()
    world: World = field(default_factory=World)
    offset: int = 0
    abandoned: int = 0

    def load(self, events: Sequence[Event]) -> State:
        return self.world.state(events)

    def abandon(self) -> None:
        self.abandoned += 1

    def save(self, changes: Changes, spans: Sequence[Span]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if self.poisonous & {deployment.name for deployment in changes.deployments}:
            raise Poison("refused")
        self.world.apply(changes)
        self.offset = max([self.offset, *(span.next for span in spans)])


def planner_with(store: Memory, messages: int = 1) -> tuple[Planner, Any, Any]:
    """A planner that takes one batch and then stops."""
    log, decoding = Log(), Decoding()

    class OneBatch(Log):
        def batch(self, limit: int, timeout_seconds: float) -> Batch:
            taken = Batch.of([Message(number) for number in range(messages)], {(TOPIC, 0): 0})  # type: ignore[misc]
            planner.upkeep = lambda stopping: stopping.stopping.set()
            return taken

    log = OneBatch()
    parts: dict[str, Any] = {"consumer": log, "decoder": decoding, "store": store}
    planner = Planner(**parts, rules=Rules(), batch_limit=500, upkeep=lambda _: None)
    return planner, log, decoding


@pytest.mark.parametrize("failure", [Retry("database away"), Wait("no engine instance")])
def test_batch_when_a_step_may_work_later_then_it_is_tried_again(failure: Exception) -> None:
    planner, log, _ = planner_with(Memory([failure, failure]))
    planner.run()
    assert log.committed == [Span(TOPIC, 0, 0, 1)]
    assert planner.failing == ""


def test_batch_when_the_process_shall_stop_while_it_fails_then_nothing_is_committed() -> None:
    store = Memory([Retry("away")] * 1000)
    planner, log, _ = planner_with(store)
    planner.stopping.set()
    planner.until_done(lambda: planner.process(log.batch(1, 0)))
    assert (log.committed, store.offset, planner.failing) == ([], 0, "away")


def test_batch_when_fenced_then_it_is_dropped_and_the_log_is_read_again() -> None:
    planner, log, _ = planner_with(Memory([Fenced("moved on")]))
    planner.run()
    assert (log.rewound, log.committed) == (1, [])


def test_message_when_the_database_refuses_it_then_only_that_one_is_given_up() -> None:
    store = Memory(poisonous=frozenset({"web-2"}))
    planner, log, decoding = planner_with(store, messages=5)
    planner.run()
    assert decoding.given_up == [2]
    assert sorted(d.name for d in store.world.deployments.values()) == ["web-0", "web-1", "web-3", "web-4"]
    assert store.offset == 5
    assert [span.next for span in log.committed] == [1, 2, 3, 4, 5]


def test_upkeep_when_the_database_refuses_one_deployment_then_the_others_are_looked_at() -> None:
    store = Memory()
    planner, _, _ = planner_with(store)
    events = [changed(1, f"web-{number}", uid=f"uid-{number}") for number in range(3)]
    store.poisonous = frozenset({"web-1"})
    planner.look_again(events)
    assert sorted(known.name for known in store.world.deployments.values()) == ["web-0", "web-2"]


def test_manifest_when_it_is_too_long_then_operators_are_told_and_the_batch_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(argocd, "MAX_MANIFEST", 1)
    planner, log, _ = planner_with(Memory())
    with capture_logs() as lines:
        planner.run()
    assert [(line["kind"], line["log_level"]) for line in lines if "too long" in line["event"]] == [
        ("AppProject", "error")
    ]
    assert log.committed == [Span(TOPIC, 0, 0, 1)]


def test_error_when_it_is_none_of_the_known_kinds_then_the_process_ends_with_it() -> None:
    planner, log, _ = planner_with(Memory([ZeroDivisionError()]))
    with pytest.raises(ZeroDivisionError):
        planner.run()
    assert log.committed == []


def test_batch_when_messages_were_taken_up_before_or_are_not_ours_then_they_are_left_out() -> None:
    messages: list[Any] = [Message(3), Message(4), Message(4), Message(0, partition=7), Message(9)]
    batch = Batch.of(messages, {(TOPIC, 0): 4})
    assert [message.offset() for message in batch.messages] == [4, 9]
    assert batch.spans == (Span(TOPIC, 0, 4, 10),)
