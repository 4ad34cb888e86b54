"""The life of an event before it reaches its instance."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from datetime import datetime
from typing import Any, cast

import pytest

from services.agent.acknowledgement import Ticket
from services.agent.desired_state import DesiredState
from services.agent.fleet import Fleet
from services.agent.intake import Intake
from services.common.errors import Poison, Retry
from services.common.kafka import DeadLetters
from services.common.kafka.dead_letters import SourceMessage
from services.common.messages import EngineResource, frame
from tests.unit.agent.fakes import FakeEvent, settle
from tests.unit.agent.rows import application_row


class FakeFleet:
    def __init__(self) -> None:
        self.submitted: list[tuple[EngineResource, Ticket]] = []

    def submit(self, row: EngineResource, ticket: Ticket) -> None:
        self.submitted.append((row, ticket))


class FakeDeadLetters:
    def __init__(self) -> None:
        self.sent: list[tuple[SourceMessage, str]] = []
        self.failure: Exception | None = None

    def send(self, source: SourceMessage, error: Exception, at: datetime) -> Future[int]:
        self.sent.append((source, str(error)))
        outcome: Future[int] = Future()
        outcome.set_exception(self.failure) if self.failure else outcome.set_result(0)
        return outcome


class Rig:
    """An intake and everything around it."""

    def __init__(self) -> None:
        self.fleet, self.letters = FakeFleet(), FakeDeadLetters()
        self.desired = DesiredState(self.decode)
        self.trouble: list[Exception] = []
        self.acknowledged: list[int] = []
        self.intake = Intake(self.decode, self.desired, cast("Fleet", self.fleet), cast("DeadLetters", self.letters))

    def decode(self, value: bytes) -> EngineResource:
        if self.trouble:
            raise self.trouble.pop(0)
        return application_row(value[5:].decode())

    def event(self, offset: int, value: bytes | None = None, partition: int = 0) -> FakeEvent:
        made = FakeEvent(offset, self.acknowledged)
        message: Any = made.message
        message.value = value
        message.topic, message.partition, message.timestamp, message.headers = "gitops.engine", partition, 0.0, None
        return made

    def row(self, offset: int, name: str = "app", partition: int = 0) -> FakeEvent:
        return self.event(offset, frame(1, name.encode()), partition)

    @property
    def names(self) -> list[str]:
        return [row.name for row, _ in self.fleet.submitted]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.intake.open()
    return made


async def test_row_when_it_comes_then_it_is_kept_and_handed_over_unacknowledged(rig: Rig) -> None:
    await rig.intake.take(rig.row(0))
    assert rig.names == ["app"]
    assert [row.name for row in rig.desired.rows_of("argocd")] == ["app"]
    assert rig.acknowledged == []
    rig.fleet.submitted[0][1].done()
    assert rig.acknowledged == [0]


async def test_tombstone_when_it_comes_then_it_is_acknowledged_and_nothing_else(rig: Rig) -> None:
    await rig.intake.take(rig.event(0))
    assert rig.acknowledged == [0]
    assert rig.names == []


async def test_acknowledgements_when_a_later_event_is_done_first_then_they_keep_the_order(rig: Rig) -> None:
    await rig.intake.take(rig.row(0))
    await rig.intake.take(rig.event(1))
    assert rig.acknowledged == []
    rig.fleet.submitted[0][1].done()
    assert rig.acknowledged == [0, 1]


async def test_message_when_it_cannot_be_understood_then_it_becomes_a_dead_letter_and_is_acknowledged(
    rig: Rig,
) -> None:
    rig.trouble = [Poison("not a row")]
    event = rig.row(0)
    value = event.message.value
    await rig.intake.take(event)
    [(source, error)] = rig.letters.sent
    assert (source.offset, source.value, error) == (0, value, "not a row")
    assert rig.acknowledged == [0]


async def test_message_when_not_even_the_dead_letter_can_be_written_then_it_is_not_passed_over(rig: Rig) -> None:
    rig.trouble, rig.letters.failure = [Poison("not a row")], Retry("no broker")
    with pytest.raises(Retry):
        await rig.intake.take(rig.row(0))
    assert rig.acknowledged == []


async def test_schema_when_the_registry_is_silent_then_the_event_waits_and_is_not_given_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.common.backoff.random.uniform", lambda *_: 0.0)
    rig.trouble = [Retry("silent"), Retry("silent")]
    await rig.intake.take(rig.row(0))
    assert rig.names == ["app"]
    assert rig.letters.sent == []


async def test_event_when_nothing_is_assigned_yet_then_it_waits_for_the_desired_state() -> None:
    rig = Rig()
    taking = asyncio.create_task(rig.intake.take(rig.row(0)))
    await settle()
    assert rig.names == []
    rig.intake.open()
    await taking
    assert rig.names == ["app"]


async def test_waiting_event_when_the_partition_is_revoked_then_it_is_dropped() -> None:
    rig = Rig()
    taking = asyncio.create_task(rig.intake.take(rig.row(0)))
    await settle()
    waiting = rig.intake._assignment
    rig.intake.close()
    waiting.set()
    await taking
    assert rig.names == []


async def test_open_event_when_the_partition_is_revoked_then_its_end_acknowledges_nothing(rig: Rig) -> None:
    await rig.intake.take(rig.row(0))
    rig.intake.close()
    rig.fleet.submitted[0][1].done()
    assert rig.acknowledged == []
    assert rig.intake.next_offsets() == {}


async def test_offsets_when_partitions_move_then_each_has_its_own(rig: Rig) -> None:
    await rig.intake.take(rig.row(4, partition=0))
    await rig.intake.take(rig.row(9, partition=3))
    assert rig.intake.next_offsets() == {0: 5, 3: 10}
