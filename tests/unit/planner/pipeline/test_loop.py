"""What the loop does when a step fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from services.common.errors import Poison, Retry
from services.common.kafka import ConsumedMessage, DeadLetterLimit, OffsetTracker, TopicPartition
from services.kinds.shared.catalogue import TENANT_PARKED
from services.planner.database import periodic_queries
from services.planner.database.connection import Unreachable
from services.planner.database.load import Loaded
from services.planner.database.save import Fenced, Span
from services.planner.domain import plan as plan_module
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import SweepPlace, SweepScope
from services.planner.domain.ids import tenant_id
from services.planner.domain.parked_statuses import LeftStatus
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.domain.sweeps import SweepFound
from services.planner.engines import interface
from services.planner.pipeline import event_applier, loop, parked_replay, parking, periodic_tasks
from services.planner.pipeline.batch_consumer import Batch
from services.planner.pipeline.decode import Decoder
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.parking import parked_event
from services.planner.pipeline.periodic_planner import PeriodicPlanner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, SweepPart
from services.planner.rows.tenants import TenantName
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, resync, spec
from tests.unit.planner.world import World

TOPIC = "gitops.commands"
PARTITION = TopicPartition(TOPIC, 0)


class Log:
    """A consumer that holds one batch and remembers what it was told."""

    def __init__(self, messages: int) -> None:
        self.offsets = OffsetTracker()
        self.offsets.assign_partitions({PARTITION: 0})
        tracked = [self.offsets.track_offset(PARTITION, offset) for offset in range(messages)]
        self.batch = Batch.starting_at(
            {PARTITION: 0},
            [ConsumedMessage(each, b"%d" % each.offset, b"%d" % each.offset, {}, 0) for each in tracked if each],
        )
        self.acknowledged: list[Span] = []
        self.rejoined = 0
        self.lacks_starts = False
        self.membership: list[str] = []
        self.on_poll: Callable[[], None] = lambda: None

    def poll_batch(self, limit: int, timeout_seconds: float) -> Batch:
        self.on_poll()
        return self.batch

    def acknowledge_batch(self, batch: Batch) -> None:
        self.acknowledged += batch.spans
        for message in batch.messages:
            self.offsets.acknowledge_offset(message.tracked)

    def rejoin_group(self) -> None:
        self.rejoined += 1

    def leave_group(self) -> None:
        self.membership.append("left")

    def join_group(self) -> None:
        self.lacks_starts = False
        self.membership.append("joined")

    def spans_of(self, partitions: Iterable[int]) -> list[Span]:
        return [Span(TOPIC, partition, 0, 0) for partition in partitions]


@dataclass
class Codec:
    """Message n is a change of deployment n, unless it is ``unreadable``."""

    unreadable: frozenset[int] = frozenset()

    def decode_message(self, value: bytes) -> Any:
        number = int(value)
        if number in self.unreadable:
            raise Poison("not avro")
        return changed(1, f"web-{number}", uid=f"uid-{number}").message


class DeadLetterQueue:
    """Delivers each at once, and remembers it."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_letter(self, message: ConsumedMessage, error: Exception, failed_at: datetime) -> Future[int]:
        self.sent.append(message.offset)
        delivered: Future[int] = Future()
        delivered.set_result(0)
        return delivered


@dataclass
class Memory:
    """A session that fails as told: once with each of ``failures``, always for ``poisonous`` deployments."""

    failures: list[Exception] = field(default_factory=list)
    poisonous: frozenset[str] = frozenset()
    world: World = field(default_factory=World)
    offset: int = 0
    abandoned: int = 0
    spans: list[tuple[Span, ...]] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)
    """Of the database, when it is asked whether it is there; afterwards it is."""

    def is_reachable(self) -> bool:
        return self.answers.pop(0) if self.answers else True

    @property
    def fleet_reader(self) -> World:
        return self.world.fleet_reader

    def load_tenants(self, wanted: Collection[TenantName]) -> Loaded:
        return self.world.load_tenants(wanted)

    def find_unseen(self, scopes: Sequence[SweepScope]) -> Mapping[SweepScope, SweepFound]:
        return self.world.find_unseen(scopes)

    def find_unseen_of(self, part: SweepPart) -> Mapping[UUID, TenantName]:
        return self.world.find_unseen_of(part)

    def find_newest_lists(self, places: Collection[SweepPlace]) -> Mapping[SweepPlace, int]:
        return self.world.find_newest_lists(places)

    def find_engine_clusters(self, instances: Collection[str]) -> Mapping[str, str]:
        return self.world.find_engine_clusters(instances)

    def find_tenants_to_move(self, tenants: Collection[UUID]) -> frozenset[UUID]:
        return self.world.find_tenants_to_move(tenants)

    def find_parked_statuses(self, tenant: ParkedTenant) -> Sequence[LeftStatus]:
        return self.world.find_parked_statuses(tenant)

    def abandon_transaction(self) -> None:
        self.abandoned += 1
        self.world.abandon_transaction()

    def write_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if self.poisonous & {deployment.name for deployment in changes.written.deployments}:
            raise Poison("refused")
        self.world.write_changes(changes)
        self.spans.append(tuple(spans))

    def save_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        self.write_changes(changes, spans)
        self.world.save_changes(BatchChanges())
        self.offset = max([self.offset, *(span.next for span in spans)])


def planner_with(
    session: Memory, messages: int = 1, unreadable: frozenset[int] = frozenset()
) -> tuple[Planner, Log, DeadLetterQueue]:
    """A planner that takes one batch and then stops."""
    log, letters = Log(messages), DeadLetterQueue()
    limit = DeadLetterLimit("planner", 0.5, 3)
    decoder: Any = Decoder({TOPIC: Codec(unreadable)}, letters, limit, log.offsets)  # type: ignore[dict-item, arg-type]
    parts: dict[str, Any] = {"consumer": log, "decoder": decoder, "session": session}
    planner = Planner(
        **parts, policy=Policy(), batch_limit=500, periodic=lambda _: None, find_cluster_topics=lambda _: {}
    )

    def stop_afterwards() -> None:
        planner.periodic = lambda _: planner.stopping.set()

    log.on_poll = stop_afterwards
    return planner, log, letters


def test_batch_when_a_step_may_work_later_then_it_is_tried_again() -> None:
    planner, log, _ = planner_with(Memory([Retry("database away")] * 2))
    planner.run()
    assert log.acknowledged == [Span(TOPIC, 0, 0, 1)]
    assert planner.failures.latest == ""


def test_batch_when_the_process_shall_stop_while_it_fails_then_nothing_is_committed() -> None:
    session = Memory([Retry("away")] * 1000)
    planner, log, _ = planner_with(session)
    planner.stopping.set()
    planner.retry_until_done(lambda: planner.process_batch(log.batch))
    assert (log.acknowledged, session.offset, planner.failures.latest) == ([], 0, "away")


def test_batch_when_fenced_then_it_is_dropped_and_the_group_is_joined_anew() -> None:
    planner, log, _ = planner_with(Memory([Fenced("moved on")]))
    planner.run()
    assert (log.rejoined, log.acknowledged) == (1, [])


def test_batch_when_the_database_is_out_of_reach_then_the_group_is_left_until_it_answers() -> None:
    session = Memory([Unreachable("connection timed out")], answers=[False, False, True])
    planner, log, _ = planner_with(session)
    planner.run()
    assert log.membership == ["left", "joined"]
    assert (log.acknowledged, session.answers) == ([], [])


def test_partitions_when_the_database_does_not_say_where_they_go_on_then_the_group_is_left_until_it_answers() -> None:
    planner, log, _ = planner_with(Memory(answers=[False, True]))
    log.lacks_starts = True
    planner.run()
    assert log.membership == ["left", "joined"]


def test_group_when_the_process_shall_stop_while_the_database_is_out_of_reach_then_it_is_not_joined() -> None:
    planner, log, _ = planner_with(Memory([Unreachable("away")], answers=[False] * 1000))
    planner.stopping.set()
    planner.retry_until_done(lambda: planner.process_batch(log.batch))
    assert log.membership == ["left"]


def test_batch_when_fenced_while_one_message_of_it_is_looked_for_then_the_rest_of_it_is_dropped_too() -> None:
    planner, log, _ = planner_with(Memory([Poison("refused"), Fenced("moved on")]), messages=5)
    planner.run()
    assert (log.rejoined, log.acknowledged) == (1, [])


class Stopping(threading.Event):
    """Remembers how long the loop meant to wait, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(("messages", "waits"), [(1, []), (2, [loop.GATHER_SECONDS])])
def test_loop_when_messages_come_faster_than_batches_end_then_the_next_gather(
    messages: int, waits: list[float]
) -> None:
    planner, _, _ = planner_with(Memory(), messages)
    planner.stopping = stopping = Stopping()
    planner.run()
    assert stopping.waits == waits


def test_message_when_the_database_refuses_it_then_only_that_one_is_given_up() -> None:
    session = Memory(poisonous=frozenset({"web-2"}))
    planner, log, letters = planner_with(session, messages=5)
    planner.run()
    assert letters.sent == [2]
    assert sorted(d.name for d in session.world.deployments.values()) == ["web-0", "web-1", "web-3", "web-4"]
    assert session.offset == 5
    assert [span.next for span in log.acknowledged] == [1, 2, 3, 4, 5]


def test_message_when_the_database_refuses_it_behind_one_that_cannot_be_read_then_both_are_given_up_once() -> None:
    session = Memory(poisonous=frozenset({"web-1"}))
    planner, log, letters = planner_with(session, messages=5, unreadable=frozenset({3}))
    planner.run()
    assert letters.sent == [3, 1]
    assert sorted(d.name for d in session.world.deployments.values()) == ["web-0", "web-2", "web-4"]
    assert log.offsets.committable_offset(PARTITION) == session.offset == 5


def test_message_when_it_was_given_up_then_a_batch_that_is_tried_again_does_not_give_it_up_again() -> None:
    planner, log, letters = planner_with(Memory([Retry("away"), Retry("away")]), 2, unreadable=frozenset({0}))
    planner.run()
    assert letters.sent == [0]
    assert log.acknowledged == [Span(TOPIC, 0, 0, 2)]


class Mending(threading.Event):
    """Whoever waits for it finds the fault mended."""

    def __init__(self, mend: Callable[[], None]) -> None:
        super().__init__()
        self.mend = mend

    def wait(self, timeout: float | None = None) -> bool:
        self.mend()
        return self.is_set()


def test_messages_when_most_cannot_be_read_then_none_is_given_up_and_they_are_planned_once_they_can() -> None:
    planner, log, letters = planner_with(Memory(), messages=5, unreadable=frozenset(range(4)))
    codec: Any = planner.decoder._codecs[TOPIC]
    reasons = []

    def mend() -> None:
        reasons.append(planner.failures.latest)
        codec.unreadable = frozenset()

    planner.stopping = Mending(mend)
    planner.run()
    assert "messages of 4 of the last 5 keys would be dead letters" in reasons[0]
    assert (letters.sent, planner.failures.latest) == ([], "")
    assert log.acknowledged == [Span(TOPIC, 0, 0, 5)]


def test_messages_when_the_database_refuses_most_then_no_more_than_the_share_are_given_up() -> None:
    session = Memory(poisonous=frozenset(f"web-{number}" for number in range(10)))
    planner, log, letters = planner_with(session, messages=10)
    planner.stopping = Mending(lambda: setattr(session, "poisonous", frozenset()))
    planner.run()
    assert letters.sent == [0, 1, 2]
    assert sorted(d.name for d in session.world.deployments.values()) == [f"web-{number}" for number in range(3, 10)]
    assert log.offsets.committable_offset(PARTITION) == session.offset == 10


def test_message_when_the_database_refuses_it_again_and_again_then_the_planner_stands_still_once_and_goes_on_once() -> (
    None
):
    session = Memory(poisonous=frozenset(f"web-{number}" for number in range(6)))
    planner, _, letters = planner_with(session, messages=6)
    reasons = []

    def mend() -> None:
        reasons.append(planner.decoder._limit.reason)
        if len(reasons) == 4:
            session.poisonous = frozenset()

    planner.stopping = Mending(mend)
    with capture_logs() as lines:
        planner.run()
    assert [line["event"] for line in lines if line["event"].startswith("the consumer")] == [
        "the consumer stands still", "the consumer goes on",
    ]  # fmt: skip
    assert (len(set(reasons[:4])), planner.decoder._limit.reason) == (1, "")
    assert letters.sent == [0, 1, 2]


def test_messages_when_one_of_a_tenant_was_given_up_then_it_counts_with_others_of_it_in_the_same_batch() -> None:
    planner, log, _ = planner_with(Memory(), messages=5, unreadable=frozenset({0}))
    log.batch = log.batch.starting_at({PARTITION: 0}, [each._replace(key=b"team") for each in log.batch.messages])
    planner.run()
    assert planner.decoder._limit._given_up == {b"team": True}


def test_upkeep_when_the_database_refuses_one_deployment_then_the_others_are_looked_at() -> None:
    session = Memory()
    planner, _, _ = planner_with(session)
    events = [changed(1, f"web-{number}", uid=f"uid-{number}") for number in range(3)]
    session.poisonous = frozenset({"web-1"})
    planner.periodic_planner.apply_due_events(events)
    assert sorted(known.name for known in session.world.deployments.values()) == ["web-0", "web-2"]


def test_upkeep_when_the_database_refuses_it_for_good_then_messages_are_still_planned() -> None:
    planner, log, _ = planner_with(Memory(), 2)
    due = [Poison("refused")]

    def periodic(_: PeriodicPlanner) -> None:
        if due:
            raise due.pop()
        planner.stopping.set()

    planner.periodic = periodic
    planner.run()
    assert log.acknowledged == [Span(TOPIC, 0, 0, 2)]


TENANT = tenant_id(WORKSPACE, NAMESPACE)
PARKED = ParkedTenant(TENANT, WORKSPACE, NAMESPACE, 3, "ZeroDivisionError at plan.py:1", at(0))


def kept(number: int) -> ParkedEvent:
    return parked_event(TENANT, changed(1, f"web-{number}", uid=f"uid-{number}"))


def test_parked_tenant_when_the_database_refuses_one_message_then_only_that_one_is_given_up() -> None:
    session = Memory(poisonous=frozenset({"web-2"}))
    session.world.parked[TENANT] = PARKED
    planner, _, letters = planner_with(session)
    planner.parked_replay.retry_parked(PARKED, [kept(number) for number in range(5)], [])
    assert sorted(each.name for each in session.world.deployments.values()) == ["web-0", "web-1", "web-3", "web-4"]
    assert (letters.sent, session.world.parked) == ([-1], {})


def test_parked_tenant_when_much_has_happened_to_it_then_it_is_planned_in_pieces_with_a_beat_before_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked_replay, "PLANNED_AT_ONCE", 2)
    session = Memory()
    planner, _, _ = planner_with(session)
    beats: list[int] = []
    monkeypatch.setattr(planner.heartbeat, "beat", lambda: beats.append(len(session.world.deployments)))
    planner.parked_replay.retry_parked(PARKED, [kept(number) for number in range(5)], [])
    assert beats == [0, 2, 4]
    assert len(session.world.deployments) == 5


def test_parked_tenant_when_it_goes_on_then_all_its_resources_show_what_is_true_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Memory()
    session.world.take(changed(1), changed(1, "api", uid="uid-2", content=spec(source={"path": "/"})))
    before = {key: row.status for key, row in session.world.workspace.items()}
    with monkeypatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        session.world.take(changed(2, "new", uid="uid-3"))
    ((parked,), rows) = session.world.parked.values(), session.world.parked_events
    assert all(TENANT_PARKED.message in row.status for row in session.world.workspace.values())
    planner, _, _ = planner_with(session)
    planner.parked_replay.retry_parked(parked, rows, session.world.shown_of(TENANT))
    assert session.world.parked == {}
    shown = {key: row.status for key, row in session.world.workspace.items()}
    assert {key[-1] for key in shown} == {"web", "api", "new"}
    assert not any(TENANT_PARKED.message in status for status in shown.values())
    assert all("spec.source.path cannot be" in shown[key] for key in before)


def test_upkeep_when_what_is_kept_of_a_tenant_has_doubled_then_it_is_compacted_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Memory()
    planner, log, _ = planner_with(session)
    log.partitions = [3]  # type: ignore[attr-defined]
    session.connection = lambda: nullcontext(None)  # type: ignore[attr-defined]
    monkeypatch.setattr(periodic_queries, "count_parked_events", lambda *_: {PARKED: len(session.world.parked_events)})
    monkeypatch.setattr(periodic_queries, "parked_events", lambda *_: list(session.world.parked_events))
    monkeypatch.setattr(periodic_tasks, "COALESCED_FROM", 5)
    at_work, sizes = PeriodicTasks(timedelta(days=1)), []
    session.world.parked_events = [kept(number) for number in range(3)]
    for _ in range(12):
        session.world.parked_events.append(kept(0))
        at_work._coalesce_parked(planner.periodic_planner)
        sizes.append(len(session.world.parked_events))
    assert sizes == [4, 3, 4, 5, 6, 7, 8, 9, 10, 3, 4, 5]


def test_parked_tenant_when_much_has_happened_to_it_then_what_is_replaced_goes_and_the_rest_stays_in_order() -> None:
    session = Memory()
    session.world.parked[TENANT] = PARKED
    session.world.parked_events = [kept(0), *(kept(1) for _ in range(100)), kept(2)]
    planner, _, letters = planner_with(session)
    assert len(planner.parked_replay.coalesce_parked_events(PARKED, session.world.parked_events)) == 3
    assert session.world.parked_events == [kept(0), kept(1), kept(2)]
    assert (session.world.parked, letters.sent) == ({TENANT: PARKED}, [])
    assert session.spans == [(Span(TOPIC, 0, 0, 0), Span(TOPIC, 3, 0, 0))]


def test_parked_tenant_when_more_has_happened_to_it_than_is_kept_then_the_end_of_it_becomes_dead_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking, "MOST_KEPT", 2)
    session = Memory()
    session.world.parked[TENANT] = PARKED
    session.world.parked_events = [kept(number) for number in range(5)]
    planner, _, letters = planner_with(session)
    assert len(planner.parked_replay.coalesce_parked_events(PARKED, session.world.parked_events)) == 2
    assert (session.world.parked_events, len(letters.sent)) == ([kept(0), kept(1)], 3)


def test_parked_tenant_when_more_bytes_are_kept_than_are_planned_at_once_then_the_end_is_given_up_before_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking, "MOST_KEPT_BYTES", 3 * len(kept(0).message) // 2)
    session = Memory()
    session.world.parked[TENANT] = PARKED
    session.world.parked_events = [kept(number) for number in range(5)]
    planner, _, letters = planner_with(session)
    planner.parked_replay.retry_parked(PARKED, session.world.parked_events, [])
    assert (session.world.parked, len(letters.sent)) == ({}, 3)


def test_parked_tenant_when_the_database_does_not_take_what_is_kept_then_it_stays_as_it_is() -> None:
    session = Memory([Poison("too much at once")])
    session.world.parked_events = [kept(1), kept(1)]
    planner, _, _ = planner_with(session)
    assert len(planner.parked_replay.coalesce_parked_events(PARKED, session.world.parked_events)) == 2
    assert session.world.parked_events == [kept(1), kept(1)]


@pytest.mark.parametrize(
    "text", ['{"types": ["Renamed"], "message": {}}', '{"types": ["Unseen"], "message": {"x": 1}}', "{}", "no JSON"]
)
def test_parked_tenant_when_what_was_kept_is_not_understood_then_it_stays_parked_and_the_process_goes_on(
    text: str,
) -> None:
    session = Memory()
    session.world.parked[TENANT] = PARKED
    planner, _, _ = planner_with(session)
    with capture_logs() as lines:
        planner.parked_replay.retry_parked(PARKED, [replace(kept(1), message=text)], [])
    assert list(session.world.parked) == [TENANT]
    assert [(line["event"], line["namespace"]) for line in lines] == [("the tenant stays parked", NAMESPACE)]


def test_parked_tenant_when_nothing_was_kept_of_it_then_its_partition_has_to_be_ours_all_the_same() -> None:
    session = Memory()
    session.world.parked[TENANT] = PARKED
    planner, _, _ = planner_with(session)
    planner.parked_replay.retry_parked(PARKED, [], [])
    assert session.world.parked == {}
    assert set(session.spans) == {(Span(TOPIC, 3, 0, 0),)}


def test_batch_when_it_cannot_be_coalesced_then_all_that_happened_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Any) -> Any:
        raise KeyError("a kind")

    monkeypatch.setattr(event_applier, "coalesce", failing)
    session = Memory()
    planner, log, _ = planner_with(session, messages=2)
    planner.run()
    assert len(session.world.deployments) == 2
    assert log.acknowledged == [Span(TOPIC, 0, 0, 2)]


def remove_parts(planner: Planner, session: Memory) -> None:
    while (due := session.world.due_sweep()) is not None:
        planner.periodic_planner.remove_part(due)


def left(session: Memory) -> set[str]:
    """Names of the deployments whose CR is there."""
    return {row.name for row in session.world.deployments.values() if row.present}


def test_marker_when_its_batch_made_a_resource_that_it_does_not_show_then_that_is_to_be_removed() -> None:
    session = Memory()
    planner, _, _ = planner_with(session)
    planner.applier.apply_events(
        [changed(1), changed(2, "api", uid="uid-2", epoch=2), resync(3, epoch=2)], [Span(TOPIC, 0, 4, 7)]
    )
    assert session.spans == [(Span(TOPIC, 0, 4, 4),), (Span(TOPIC, 0, 4, 7),)]
    assert len(session.world.sweep_parts) == 1
    remove_parts(planner, session)
    assert left(session) == {"api"}


@pytest.fixture
def lacking() -> tuple[Planner, Memory]:
    """Five deployments, of which a list lacked all; two are removed at once."""
    session = Memory()
    planner, _, _ = planner_with(session)
    planner.applier.policy = Policy(guard=SweepGuard(at_once=2))
    planner.applier.apply_events([changed(1, f"web-{number}", uid=f"uid-{number}") for number in range(5)], [])
    planner.applier.apply_events([resync(3, epoch=2)], [])
    return planner, session


def test_sweep_when_it_removes_many_then_each_part_is_a_transaction_with_the_offsets_as_they_are(
    lacking: tuple[Planner, Memory],
) -> None:
    planner, session = lacking
    counts, session.spans = [], []
    while (due := session.world.due_sweep()) is not None:
        planner.periodic_planner.remove_part(due)
        counts.append(len(left(session)))
    assert counts == [3, 1, 0]
    assert session.spans == [(Span(TOPIC, 0, 0, 0),)] * 3, "the fence, which moves nothing"


def test_sweep_when_a_part_fails_then_it_is_there_as_it_was(lacking: tuple[Planner, Memory]) -> None:
    planner, session = lacking
    parts = dict(session.world.sweep_parts)
    session.failures = [Fenced("moved on")]
    with pytest.raises(Fenced):
        planner.periodic_planner.remove_part(session.world.due_sweep())
    session.world.abandon_transaction()
    assert (session.world.sweep_parts, len(left(session))) == (parts, 5)


def test_sweep_when_the_database_refuses_a_resource_then_that_alone_stays_and_the_others_go(
    lacking: tuple[Planner, Memory],
) -> None:
    planner, session = lacking
    session.poisonous = frozenset({"web-3"})
    remove_parts(planner, session)
    assert left(session) == {"web-3"}
    session.poisonous = frozenset()
    planner.applier.apply_events([resync(9, epoch=8)], [])
    remove_parts(planner, session)
    assert left(session) == set(), "the next list lacks it, too"


def test_marker_when_what_its_batch_made_is_an_implausible_share_then_nothing_is_swept() -> None:
    session = Memory()
    planner, _, _ = planner_with(session)
    made = [changed(1, f"web-{number}", uid=f"uid-{number}") for number in range(30)]
    planner.applier.apply_events([*made, resync(3, epoch=2)], [])
    assert all(row.present for row in session.world.deployments.values())


def swept(kind: str) -> float | None:
    return REGISTRY.get_sample_value("gitops_resources_swept_total", {"service": "planner", "kind": kind})


def test_marker_when_resources_are_swept_then_each_is_counted_once_by_kind_when_it_is_committed() -> None:
    session = Memory()
    planner, _, _ = planner_with(session)
    before, secrets = swept("GitOpsDeployment"), swept("Secret")
    assert (before, secrets) != (None, None), "an increase is seen only of what is there before"
    made = [changed(1), changed(2, "web-2", uid="uid-2"), changed(2, "api", uid="uid-3", epoch=4)]
    planner.applier.apply_events(made, [])
    markers = [resync(3, epoch=2), resync(4, epoch=3)]
    planner.applier.apply_events(markers, [])
    session.failures = [Retry("database away")]
    with pytest.raises(Retry):
        remove_parts(planner, session)
    assert swept("GitOpsDeployment") == before
    planner.applier.apply_events(markers, [])
    remove_parts(planner, session)
    assert swept("GitOpsDeployment") == (before or 0) + 2
    assert swept("Secret") == secrets


def test_marker_when_it_is_refused_then_nothing_is_counted_as_swept() -> None:
    session = Memory()
    planner, _, _ = planner_with(session)
    before = swept("GitOpsDeployment")
    planner.applier.apply_events([changed(1, f"web-{number}", uid=f"uid-{number}") for number in range(30)], [])
    planner.applier.apply_events([resync(3, epoch=2)], [])
    assert swept("GitOpsDeployment") == before


def test_manifest_when_it_is_too_long_then_operators_are_told_and_the_batch_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interface, "MAX_MANIFEST", 1)
    planner, log, _ = planner_with(Memory())
    with capture_logs() as lines:
        planner.run()
    assert [(line["kind"], line["log_level"]) for line in lines if "too long" in line["event"]] == [
        ("AppProject", "error")
    ]
    assert log.acknowledged == [Span(TOPIC, 0, 0, 1)]


def test_error_when_it_is_none_of_the_known_kinds_then_the_process_ends_with_it() -> None:
    planner, log, _ = planner_with(Memory([ZeroDivisionError()]))
    with pytest.raises(ZeroDivisionError):
        planner.run()
    assert log.acknowledged == []
