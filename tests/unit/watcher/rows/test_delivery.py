from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest

from services.common.avro import frame, local_schemas
from services.common.errors import AskedAgain, GitOpsError, Permanent, Poison, Retry, Unavailable, Wait
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    GroupSession,
    OffsetTracker,
    TooManyDeadLetters,
    TopicPartition,
    TrackedOffset,
)
from services.common.messages import WorkspaceResource
from services.planner.domain.steps.child_objects import REAPPLY_AFTER
from services.watcher.rows import delivery, row_consumer
from services.watcher.rows.delivery import RowDelivery
from services.watcher.rows.row_consumer import DecodedRow, RowConsumer
from services.watcher.rows.row_types import STATUSES
from tests.unit.watcher.manifests import row

DEADLINE_SECONDS = 30
TOPIC = "gitops.workspace"
ROW = "gitops.public.workspace_resources.Value"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]


@dataclass
class FakeCluster:
    """Writes at once unless told to fail or to hold."""

    written: list[WorkspaceResource] = field(default_factory=list)
    failures: dict[str, list[GitOpsError]] = field(default_factory=dict)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def write(self, item: WorkspaceResource) -> bool:
        await self.gate.wait()
        if self.failures.get(item.name):
            raise self.failures[item.name].pop(0)
        self.written.append(item)
        return True


@dataclass
class FakeDeadLetters:
    outcome: Future[int] = field(default_factory=Future)
    sent: list[ConsumedMessage] = field(default_factory=list)

    def send_letter(self, message: ConsumedMessage, error: Exception, failed_at: Any) -> Future[int]:
        self.sent.append(message)
        return self.outcome


@dataclass
class Bench:
    """A reporter and what is around it."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    dead_letters: Any = field(default_factory=FakeDeadLetters)
    letter_limit: DeadLetterLimit = field(default_factory=lambda: DeadLetterLimit("watcher", 0.5, 3))
    offsets: OffsetTracker = field(default_factory=OffsetTracker)
    session: GroupSession = field(default_factory=lambda: GroupSession(timeout_seconds=60))
    reporter: RowDelivery[WorkspaceResource] = field(init=False)
    working: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.offsets.assign_partitions(dict.fromkeys(PARTITIONS))
        self.session.confirm_membership(self.session.clock.time())
        self.reporter = RowDelivery(
            STATUSES, self.cluster.write, self.offsets, self.session, self.dead_letters, self.letter_limit, 2
        )
        self.working = asyncio.create_task(self.reporter.run(writers=4))

    @property
    def committable(self) -> dict[int, int]:
        found = {source.partition: self.offsets.committable_offset(source) for source in PARTITIONS}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def consume(
        self, *items: WorkspaceResource | Poison | None, first: int = 0, partition: int = 0
    ) -> list[DecodedRow[WorkspaceResource]]:
        """Messages with these contents."""
        tracked = [self.offsets.track_offset(PARTITIONS[partition], first + number) for number in range(len(items))]
        return [
            DecodedRow(ConsumedMessage(each, b"k", b"v", {}, 0), item)
            for each, item in zip(tracked, items, strict=True)
            if each
        ]

    def read(self, *items: WorkspaceResource | Poison | None, first: int = 0, partition: int = 0) -> None:
        """Hand over messages with these contents."""
        self.reporter.handle_rows(self.consume(*items, first=first, partition=partition))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.working.cancel()
    await asyncio.wait([bench.working])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the fakes signal nothing
            await asyncio.sleep(0.001)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_rows_when_written_then_their_offsets_are_stored(bench: Bench) -> None:
    bench.read(row("a"), row("b"), None)
    await until(lambda: bench.committable == {0: 3})
    assert {item.name for item in bench.cluster.written} == {"a", "b"}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set as soon as the broker has said that we are a member."""
    answered = asyncio.Event()
    monkeypatch.setattr(delivery, "CONFIRMATION_SECONDS", 0.001)
    monkeypatch.setattr(GroupSession, "is_confirmed", property(lambda _: answered.is_set()))
    return answered


async def test_row_when_another_watcher_may_write_it_by_now_then_it_waits_until_the_broker_says_that_it_is_ours(
    bench: Bench, answered: asyncio.Event
) -> None:
    bench.read(row("a"))
    await settle()
    assert bench.cluster.written == []
    answered.set()
    await until(lambda: bench.committable == {0: 1})
    assert [item.name for item in bench.cluster.written] == ["a"]


async def test_row_when_its_partition_is_revoked_while_it_waits_for_the_broker_then_it_is_not_written(
    bench: Bench, answered: asyncio.Event
) -> None:
    bench.read(row("a"))
    await settle()
    bench.offsets.revoke_partitions(bench.offsets.partitions)
    answered.set()
    bench.offsets.assign_partitions(dict.fromkeys(PARTITIONS))
    bench.read(row("b"))
    await until(lambda: bench.committable == {0: 1})
    assert [item.name for item in bench.cluster.written] == ["b"]


async def test_rows_when_of_one_resource_then_only_the_newest_that_waits_is_written(bench: Bench) -> None:
    bench.cluster.gate.clear()
    bench.read(row("a", digest="1"))
    await settle()
    bench.read(row("a", digest="2"), row("a", digest="3"), first=1)
    await settle()
    assert bench.committable == {}, "nothing is stored before the first of them is written"
    bench.cluster.gate.set()
    await until(lambda: bench.committable == {0: 3})
    assert [item.digest for item in bench.cluster.written] == ["1", "3"]


@pytest.mark.parametrize("error", [Retry("away"), Wait("forbidden")], ids=["retry", "wait"])
async def test_row_when_it_cannot_be_written_yet_then_others_are_and_nothing_behind_it_is_stored(
    bench: Bench, error: GitOpsError
) -> None:
    bench.cluster.failures["stuck"] = [error]
    bench.read(row("before"), row("stuck"), row("after"))
    await until(lambda: len(bench.cluster.written) == 2)
    assert bench.committable == {0: 1}
    await until(lambda: bench.committable == {0: 3})
    assert bench.cluster.written[-1].name == "stuck"


def test_row_when_it_is_let_go_then_the_planner_asks_again_for_its_object_without_delay() -> None:
    assert delivery.ASKED_AGAIN_AFTER >= REAPPLY_AFTER


async def test_row_when_it_is_new_and_asked_for_again_then_it_is_tried_until_it_is_written(bench: Bench) -> None:
    bench.cluster.failures["new"] = [AskedAgain("being deleted")] * 2
    bench.read(row("new", seen_at=datetime.now(UTC)))
    await until(lambda: bench.committable == {0: 1})
    assert [item.name for item in bench.cluster.written] == ["new"]


async def test_row_when_it_is_asked_for_again_and_has_waited_then_it_is_let_go(bench: Bench) -> None:
    bench.cluster.failures["old"] = [AskedAgain("being deleted")]
    bench.read(row("old", seen_at=datetime.now(UTC) - delivery.ASKED_AGAIN_AFTER))
    await until(lambda: bench.committable == {0: 1})
    assert (bench.cluster.written, bench.dead_letters.sent) == ([], [])


async def test_rows_when_one_namespace_has_more_that_stay_in_the_way_than_may_wait_then_others_are_written(
    bench: Bench,
) -> None:
    names = [f"stuck-{number}" for number in range(bench.reporter.limit + 1)]
    bench.cluster.failures = {name: [AskedAgain("being deleted")] * 1000 for name in names}
    bench.read(*(row(name, seen_at=datetime.now(UTC)) for name in names))
    await settle()
    await until(lambda: not bench.reporter.is_full())
    bench.read(row("web", namespace="team-b"), first=len(names))
    await until(lambda: bool(bench.cluster.written))
    assert [item.name for item in bench.cluster.written] == ["web"]


async def test_row_when_it_can_never_be_written_then_it_is_passed_over_once_its_dead_letter_is_delivered(
    bench: Bench,
) -> None:
    bench.cluster.failures["bad"] = [Permanent("refused")]
    bench.read(row("bad"), row("good"))
    await until(lambda: len(bench.cluster.written) == 1)
    assert len(bench.dead_letters.sent) == 1
    assert bench.committable == {}
    bench.dead_letters.outcome.set_result(0)
    await until(lambda: bench.committable == {0: 2})
    assert [item.name for item in bench.cluster.written] == ["good"]


async def test_message_when_unreadable_then_it_is_passed_over_only_once_its_dead_letter_is_delivered(
    bench: Bench,
) -> None:
    bench.read(Poison("what is this"), row("a"))
    await until(lambda: len(bench.cluster.written) == 1)
    assert len(bench.dead_letters.sent) == 1
    assert bench.committable == {}
    bench.dead_letters.outcome.set_result(0)
    await until(lambda: bench.committable == {0: 2})


async def test_delivery_when_a_dead_letter_cannot_be_delivered_then_it_stops_and_stores_nothing(bench: Bench) -> None:
    bench.read(Poison("what is this"))
    await until(lambda: len(bench.dead_letters.sent) == 1)
    bench.dead_letters.outcome.set_exception(Retry("not delivered"))
    with pytest.raises(Unavailable, match="dead letter"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await bench.working
    assert bench.committable == {}


async def test_partition_when_revoked_then_its_waiting_rows_are_neither_written_nor_stored(bench: Bench) -> None:
    bench.cluster.failures["a"] = [Retry("away")] * 50
    bench.read(row("a"), partition=1)
    await until(lambda: len(bench.cluster.failures["a"]) < 50)
    await asyncio.to_thread(bench.reporter.revoke_partitions, [PARTITIONS[1]])
    bench.cluster.failures["a"] = []
    bench.read(row("b"), partition=2)
    await until(lambda: bench.committable == {2: 1})
    assert [item.name for item in bench.cluster.written] == ["b"]


async def test_row_when_its_partition_was_revoked_before_it_is_handed_over_then_nothing_is_written(
    bench: Bench,
) -> None:
    late = bench.consume(row("late"))
    bench.offsets.revoke_partitions([PARTITIONS[0]])
    bench.reporter.handle_rows(late)
    bench.read(row("other"), partition=1)
    await until(lambda: bench.committable == {1: 1})
    assert [item.name for item in bench.cluster.written] == ["other"]


async def test_row_when_its_partition_goes_and_comes_back_while_it_waits_then_it_is_not_written_from_before(
    bench: Bench,
) -> None:
    bench.cluster.gate.clear()
    bench.read(*(row(name) for name in "abcd"), partition=1)  # one for each writer
    bench.read(row("web", digest="of before"))
    await settle()
    bench.offsets.revoke_partitions([PARTITIONS[0]])
    bench.offsets.assign_partitions({PARTITIONS[0]: None})
    bench.cluster.gate.set()
    await until(lambda: bench.committable == {1: 4})
    bench.read(row("web", digest="of now"))
    await until(lambda: bench.committable == {0: 1, 1: 4})
    assert [item.digest for item in bench.cluster.written if item.name == "web"] == ["of now"]


async def test_partition_when_revoked_while_the_api_server_hangs_then_it_is_given_up_with_no_write_in_flight(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "WRITE_SECONDS", 0.05)
    bench.cluster.gate.clear()
    bench.read(row("web"), partition=1)
    await settle()
    await asyncio.to_thread(bench.reporter.revoke_partitions, [PARTITIONS[1]])
    bench.cluster.gate.set()
    bench.read(row("other"))
    await until(lambda: bench.committable == {0: 1})
    assert [item.name for item in bench.cluster.written] == ["other"]


async def test_delivery_when_as_many_wait_as_allowed_then_it_is_full(bench: Bench) -> None:
    bench.cluster.gate.clear()
    bench.read(*(row(name) for name in "abcd"))  # one for each writer
    await settle()
    assert not bench.reporter.is_full()
    bench.read(row("e"), row("f"), first=4)
    await settle()
    assert bench.reporter.is_full()


class FakeRegistry:
    """Answers with a schema that no row fits, until it is mended."""

    mended = False

    def local_schema(self, subject: str) -> Any:
        return fastavro.parse_schema(local_schemas()[subject])

    def schema_by_id(self, schema_id: int) -> Any:
        return self.local_schema(ROW) if self.mended else {"type": "fixed", "name": "wrong", "size": 1_000_000}


@dataclass
class FakeConsumer:
    """Hands out ``messages`` as one batch."""

    offsets: OffsetTracker
    messages: list[ConsumedMessage]
    membership: list[str] = field(default_factory=list)
    was_assigned: bool = True
    unavailable_topics: set[str] = field(default_factory=set)

    def leave_group(self) -> None:
        self.membership.append("left")

    def join_group(self) -> None:
        self.membership.append("joined")

    def set_paused(self, paused: bool) -> None:
        pass

    def poll_batch(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        messages, self.messages = self.messages, []
        time.sleep(0 if messages else 0.001)
        return messages


def framed(subject: str, record: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, local_schemas()[subject], record)
    return frame(1, buffer.getvalue())


def streamed(tracked: TrackedOffset, item: WorkspaceResource) -> ConsumedMessage:
    seen_at = item.seen_at.isoformat()
    columns = {**asdict(item), "seen_at": seen_at, "updated_at": seen_at, "__deleted": str(item.deleted).lower()}
    return ConsumedMessage(tracked, framed(STATUSES.key_subject, columns), framed(ROW, columns), {}, 0)


@asynccontextmanager
async def consuming(
    bench: Bench, registry: Any, items: list[WorkspaceResource], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """A consumer of these rows, with the limit of ``bench``, hands over to it."""
    monkeypatch.setattr("services.common.backoff.random.uniform", lambda *_: 0.001)
    tracked = [bench.offsets.track_offset(PARTITIONS[0], number) for number in range(len(items))]
    messages = [streamed(each, item) for each, item in zip(tracked, items, strict=True) if each]
    monkeypatch.setattr(row_consumer, "Consumer", lambda *_: FakeConsumer(bench.offsets, messages))
    brokers: Any = None
    rows = RowConsumer(STATUSES, brokers, registry, bench.letter_limit, "local", TOPIC)
    running = asyncio.create_task(asyncio.to_thread(rows.run, bench.reporter))
    try:
        yield
    finally:
        rows.stop()
        await asyncio.wait([running])


async def test_rows_when_those_of_most_tenants_cannot_be_understood_then_they_wait_until_they_can(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.dead_letters.outcome.set_result(0)
    registry = FakeRegistry()
    items = [row(f"web-{number}", namespace=f"team-{number}") for number in range(6)]
    items.append(row("of another", namespace="team-3", workspace="another"))
    async with consuming(bench, registry, items, monkeypatch):
        await until(lambda: "messages of 4 of the last 4 keys" in bench.letter_limit.reason)
        assert (bench.committable, bench.dead_letters.sent) == ({}, [])
        registry.mended = True
        await until(lambda: bench.committable == {0: 7})
    assert [item.namespace for item in bench.cluster.written] == ["team-3", "team-4", "team-5"]
    assert (len(bench.dead_letters.sent), bench.letter_limit.reason) == (3, "")


async def test_rows_when_none_of_one_tenant_can_be_understood_then_they_are_given_up_and_stop_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.dead_letters.outcome.set_result(0)
    items = [row(f"web-{number}") for number in range(6)]
    async with consuming(bench, FakeRegistry(), items, monkeypatch):
        await until(lambda: bench.committable == {0: 6})
    assert (len(bench.dead_letters.sent), bench.letter_limit.reason) == (6, "")


async def test_row_when_it_is_not_to_be_written_then_its_tenant_is_not_given_up_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TooManyDeadLetters):
        bench.letter_limit.require_room([f"team-{number}" for number in range(4)], Poison("wrong schema"))
    registry = FakeRegistry()
    registry.mended = True
    async with consuming(bench, registry, [row(namespace="team-0", deleted=True)], monkeypatch):
        await until(lambda: bench.committable == {0: 1})
    assert (bench.cluster.written, bench.letter_limit.reason) == ([], "")


async def test_share_when_the_watcher_leaves_and_joins_then_its_consumer_does_so_once_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer(bench.offsets, [])
    monkeypatch.setattr(row_consumer, "Consumer", lambda *_: consumer)
    brokers: Any = None
    registry: Any = FakeRegistry()
    rows = RowConsumer(STATUSES, brokers, registry, bench.letter_limit, "local", TOPIC)
    running = asyncio.create_task(asyncio.to_thread(rows.run, bench.reporter))
    await rows.leave_group()
    await until(lambda: consumer.membership == ["left"])
    await rows.join_group()
    await until(lambda: consumer.membership == ["left", "joined"])
    rows.stop()
    await running
    assert consumer.membership == ["left", "joined"]


READY: dict[str, tuple[bool, set[str], str]] = {
    "assigned": (True, set(), ""),
    "not-yet": (False, set(), f"no partitions of {TOPIC} assigned yet"),
    "an-installation-without-the-topic": (False, {TOPIC}, ""),
}


@pytest.mark.parametrize(("was_assigned", "unavailable", "reason"), READY.values(), ids=READY)
async def test_consumer_when_it_has_partitions_or_could_have_none_then_it_is_ready(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, was_assigned: bool, unavailable: set[str], reason: str
) -> None:
    consumer = FakeConsumer(bench.offsets, [], was_assigned=was_assigned, unavailable_topics=unavailable)
    monkeypatch.setattr(row_consumer, "Consumer", lambda *_: consumer)
    brokers: Any = None
    registry: Any = FakeRegistry()
    rows = RowConsumer(STATUSES, brokers, registry, bench.letter_limit, "local", TOPIC)
    assert rows.unready_because() == reason


async def test_statuses_when_those_of_most_tenants_are_refused_then_they_wait_and_none_more_is_given_up(
    bench: Bench,
) -> None:
    names = [f"web-{number}" for number in range(6)]
    bench.cluster.failures = {name: [Permanent("older CRD")] * (1 + (number > 2)) for number, name in enumerate(names)}
    bench.dead_letters.outcome.set_result(0)
    bench.read(*(replace(row(name), namespace=f"team-{name}") for name in names))
    await until(lambda: "older CRD" in bench.letter_limit.reason)
    assert len(bench.dead_letters.sent) == 3
    await until(lambda: len(bench.cluster.written) == 3)
    assert (len(bench.dead_letters.sent), bench.letter_limit.reason) == (3, "")
