"""The life of a message before its row reaches its instance."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from concurrent.futures import Future
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.agent.observe.pending_acks import Acknowledge
from services.agent.stream.desired_state import DesiredState, Snapshot
from services.agent.stream.message_handler import MessageHandler
from services.agent.stream.owned_instances import OwnedInstances
from services.common.avro import frame
from services.common.errors import Poison, Retry
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    DeadLetterQueue,
    OffsetTracker,
    TooManyDeadLetters,
    TopicPartition,
    TrackedOffset,
)
from services.common.messages import EngineResource
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import settle

TOPIC = "gitops.engine"
SOURCE, OTHER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 3)
KEY = frame(2, b"argocd/Application/app")


class FakeFleet:
    def __init__(self) -> None:
        self.submitted: list[tuple[EngineResource, Acknowledge]] = []

    def submit_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        self.submitted.append((row, acknowledge))


class FakeDeadLetters:
    def __init__(self) -> None:
        self.sent: list[tuple[ConsumedMessage, str]] = []
        self.failure: Exception | None = None

    def send_letter(self, message: ConsumedMessage, error: Exception, at: datetime) -> Future[int]:
        self.sent.append((message, str(error)))
        outcome: Future[int] = Future()
        outcome.set_exception(self.failure) if self.failure else outcome.set_result(0)
        return outcome


class Rig:
    """A consumer of rows and everything around it. A row's digest is what its message says."""

    def __init__(self) -> None:
        self.fleet, self.letters, self.offsets = FakeFleet(), FakeDeadLetters(), OffsetTracker()
        self.desired, self.limit = DesiredState(self.decode), DeadLetterLimit("agent", 0.5, 3)
        self.trouble: list[Exception] = []
        self.registry_answers = threading.Event()
        self.registry_answers.set()
        instances, letters = cast("OwnedInstances", self.fleet), cast("DeadLetterQueue", self.letters)
        self.consumer = MessageHandler(
            self.decode, self.desired, instances, letters, self.limit, self.offsets, look_for=self.look_for
        )
        self.looked_for: list[str] = []
        self.fleet_asked = asyncio.Event()
        self.fleet_answers = asyncio.Event()
        self.fleet_answers.set()

    def decode(self, key: bytes | None, value: bytes | None) -> EngineResource:
        assert self.registry_answers.wait(10)
        if self.trouble:
            raise self.trouble.pop(0)
        digest = "deleted" if value is None else value[5:].decode()
        return dataclasses.replace(application_row("app"), digest=digest, deleted=digest == "deleted")

    async def look_for(self, instance: str) -> None:
        self.looked_for.append(instance)
        self.fleet_asked.set()
        await self.fleet_answers.wait()

    async def consume(self, offset: int, says: str | None = "a row", source: TopicPartition = SOURCE) -> None:
        await self.consumer.handle_message(message_at(offset, says, source))

    async def load(self, offset: int, says: str | None, start: int) -> None:
        """Load what was read of the topic, this message last, and have the partition from ``start`` on."""
        newest = ConsumedMessage(TrackedOffset(SOURCE, offset, 0), KEY, value(says), {}, 0)
        snapshot = Snapshot({SOURCE: start}, {SOURCE: {KEY: newest}})
        await self.desired.load_snapshot(snapshot)
        self.consumer.assign_partitions(snapshot.starts)

    @property
    def submitted(self) -> list[str]:
        return [row.digest for row, _ in self.fleet.submitted]

    @property
    def committable(self) -> int | None:
        return self.offsets.committable_offset(SOURCE)


def value(says: str | None) -> bytes | None:
    return None if says is None else frame(1, says.encode())


def message_at(offset: int, says: str | None = "a row", source: TopicPartition = SOURCE) -> Any:
    topic, partition = source
    return SimpleNamespace(
        topic=topic, partition=partition, offset=offset, key=KEY, value=value(says), timestamp=0.0, headers=None
    )


@pytest.fixture
async def rig() -> Rig:
    made = Rig()
    made.consumer.assign_partitions({SOURCE: 0, OTHER: 0})
    return made


async def test_row_when_it_comes_then_it_is_kept_and_handed_over_unacknowledged(rig: Rig) -> None:
    await rig.consume(0)
    assert rig.submitted == ["a row"]
    assert [row.digest for row in rig.desired.rows_of("argocd")] == ["a row"]
    assert rig.committable == 0
    rig.fleet.submitted[0][1]()
    assert rig.committable == 1


@pytest.mark.parametrize("deletion", ["deleted", None], ids=["deleted", "tombstone"])
async def test_row_when_deleted_then_it_is_forgotten_and_its_instance_told(rig: Rig, deletion: str | None) -> None:
    await rig.consume(0)
    await rig.consume(1, deletion)
    assert (rig.submitted, list(rig.desired.rows_of("argocd"))) == (["a row", "deleted"], [])
    assert rig.committable == 0
    for _, acknowledge in rig.fleet.submitted:
        acknowledge()
    assert rig.committable == 2


async def test_replayed_row_when_a_newer_one_was_read_then_it_is_acknowledged_and_not_acted_on() -> None:
    rig = Rig()
    await rig.load(20, "of today", start=10)
    await rig.consume(10, "of yesterday")
    assert (rig.submitted, rig.committable) == ([], 11)
    assert [row.digest for row in rig.desired.rows_of("argocd")] == ["of today"]
    await rig.consume(20, "of today")
    await rig.consume(21, "of tomorrow")
    assert rig.submitted == ["of today", "of tomorrow"]


@pytest.mark.parametrize(("start", "unacknowledged"), [(20, ["of today"]), (21, [])])
async def test_row_when_loaded_then_it_is_known_whether_its_message_was_committed(
    start: int, unacknowledged: list[str]
) -> None:
    rig = Rig()
    await rig.load(20, "of today", start)
    assert [row.digest for row in rig.desired.unacknowledged_rows_of("argocd")] == unacknowledged


@pytest.mark.parametrize("newest", ["deleted", None], ids=["deleted", "tombstone"])
async def test_replayed_row_when_its_deletion_was_read_then_it_does_not_come_back(newest: str | None) -> None:
    rig = Rig()
    await rig.load(20, newest, start=10)
    await rig.consume(10, "of yesterday")
    assert (rig.submitted, list(rig.desired.rows_of("argocd"))) == ([], [])


async def test_replayed_row_when_the_newer_one_could_not_be_understood_then_it_is_not_acted_on() -> None:
    rig = Rig()
    rig.trouble = [Poison("not a row")]
    await rig.load(20, "what is this", start=10)
    await rig.consume(10, "of yesterday")
    assert (rig.submitted, rig.desired.complete) == ([], False)


async def test_message_when_it_comes_twice_then_it_is_consumed_once(rig: Rig) -> None:
    await rig.consume(0)
    await rig.consume(0)
    assert rig.submitted == ["a row"]


async def test_message_when_it_cannot_be_understood_then_it_becomes_a_dead_letter_and_is_acknowledged(rig: Rig) -> None:
    rig.trouble = [Poison("not a row")]
    await rig.consume(0, "what is this")
    [(message, error)] = rig.letters.sent
    assert (message.offset, message.value, error) == (0, value("what is this"), "not a row")
    assert rig.committable == 1


async def test_message_when_not_even_the_dead_letter_can_be_written_then_it_is_not_passed_over(rig: Rig) -> None:
    rig.trouble, rig.letters.failure = [Poison("not a row")], Retry("no broker")
    with pytest.raises(Retry):
        await rig.consume(0)
    assert rig.committable == 0


async def test_schema_when_the_registry_is_silent_then_the_message_waits_and_is_not_given_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.common.backoff.random.uniform", lambda *_: 0.0)
    rig.trouble = [Retry("silent"), Retry("silent")]
    await rig.consume(0)
    assert (rig.submitted, rig.letters.sent) == (["a row"], [])


async def test_message_when_nothing_is_assigned_yet_then_it_waits_for_the_desired_state() -> None:
    rig = Rig()
    consuming = asyncio.create_task(rig.consume(0))
    await settle()
    assert (rig.submitted, rig.consumer.in_hand) == ([], SOURCE)
    rig.consumer.assign_partitions({SOURCE: 0})
    await consuming
    assert (rig.submitted, rig.consumer.in_hand) == (["a row"], None)


async def test_waiting_message_when_the_partition_is_revoked_then_it_is_dropped_and_holds_up_nothing() -> None:
    rig = Rig()
    consuming = asyncio.create_task(rig.consume(50))
    await settle()
    rig.consumer.revoke_partitions()
    rig.consumer.assign_partitions({SOURCE: 40})
    async with asyncio.timeout(30):
        await consuming
    assert (rig.submitted, rig.offsets.next_offset(SOURCE)) == ([], 40)
    await rig.consume(40)
    assert rig.submitted == ["a row"]


async def test_message_when_its_partition_goes_while_it_waits_for_a_schema_then_it_is_dropped(rig: Rig) -> None:
    rig.registry_answers.clear()
    consuming = asyncio.create_task(rig.consume(0, "of before"))
    await settle()
    rig.consumer.revoke_partitions()
    rig.consumer.assign_partitions({SOURCE: 0})
    rig.registry_answers.set()
    await consuming
    assert (rig.submitted, list(rig.desired.rows_of("argocd"))) == ([], [])


async def test_open_message_when_the_partition_is_revoked_then_its_end_acknowledges_nothing(rig: Rig) -> None:
    await rig.consume(0)
    rig.consumer.revoke_partitions()
    rig.consumer.assign_partitions({SOURCE: 0})
    rig.fleet.submitted[0][1]()
    assert rig.committable == 0


async def test_offsets_when_there_are_several_partitions_then_each_has_its_own(rig: Rig) -> None:
    await rig.consume(4, source=SOURCE)
    await rig.consume(9, source=OTHER)
    assert [rig.offsets.next_offset(source) for source in (SOURCE, OTHER)] == [5, 10]


async def test_messages_when_most_cannot_be_understood_then_the_next_waits_until_it_can(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.common.backoff.random.uniform", lambda *_: 0.0)
    with pytest.raises(TooManyDeadLetters):
        rig.limit.require_room([b"a", b"b", b"c", b"d"], Poison("wrong schema"))
    rig.limit.count_handled([b"d"])
    rig.trouble = [Poison("wrong schema"), Poison("wrong schema")]
    await rig.consume(0)
    assert (rig.submitted, rig.letters.sent, rig.committable) == (["a row"], [], 0)


@pytest.mark.parametrize("trouble", [Poison("wrong schema"), Retry("silent")], ids=["poison", "registry"])
async def test_message_when_its_partition_goes_while_it_cannot_be_understood_then_those_behind_it_wait_no_longer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr("services.common.backoff.random.uniform", lambda *_: 0.0)
    with pytest.raises(TooManyDeadLetters):
        rig.limit.require_room([b"a", b"b", b"c", b"d"], Poison("wrong schema"))
    rig.trouble = [trouble] * 1_000_000
    consuming = asyncio.create_task(rig.consume(0))
    async with asyncio.timeout(30):
        while not rig.consumer.is_excused:
            await settle()
    rig.consumer.revoke_partitions()
    rig.consumer.assign_partitions({OTHER: 0})
    async with asyncio.timeout(30):
        await consuming
    assert not rig.consumer.is_excused
    rig.trouble = []
    await rig.consume(0, source=OTHER)
    assert (rig.submitted, rig.letters.sent, rig.committable) == (["a row"], [], None)


async def test_row_when_its_instance_may_be_new_then_it_and_those_behind_it_wait_for_the_fleet(rig: Rig) -> None:
    rig.fleet_answers.clear()
    consuming = asyncio.create_task(rig.consume(0))
    await rig.fleet_asked.wait()
    assert (rig.looked_for, rig.submitted, rig.consumer.in_hand) == (["argocd"], [], SOURCE)
    rig.fleet_answers.set()
    await consuming
    assert (rig.submitted, rig.consumer.in_hand) == (["a row"], None)


async def test_row_when_its_partition_goes_while_it_waits_for_the_fleet_then_it_is_dropped(rig: Rig) -> None:
    rig.fleet_answers.clear()
    consuming = asyncio.create_task(rig.consume(0))
    await rig.fleet_asked.wait()
    rig.consumer.revoke_partitions()
    rig.consumer.assign_partitions({SOURCE: 0})
    rig.fleet_answers.set()
    await consuming
    assert (rig.submitted, list(rig.desired.rows_of("argocd"))) == ([], [])


@pytest.mark.parametrize("deletion", ["deleted", None], ids=["deleted", "tombstone"])
async def test_row_when_deleted_then_no_instance_is_looked_for(rig: Rig, deletion: str | None) -> None:
    await rig.consume(0, deletion)
    assert rig.looked_for == []
