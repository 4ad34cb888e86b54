"""The consumer and the reader on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from services.common.errors import Retry
from services.common.kafka import (
    SESSION_SECONDS,
    ConsumedMessage,
    Consumer,
    GroupSession,
    Membership,
    PartitionReader,
    TopicPartition,
    TrackedOffset,
    partition_reader,
)
from tests.unit.common.kafka.offset_contract import MESSAGES, OffsetContract

pytestmark = pytest.mark.short

DEADLINE_SECONDS = 90.0


class Log:
    """A topic of one test's own, and a group that reads it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, f"test-{uuid.uuid4().hex}"
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def write(self, *values: bytes | None, partition: int = 0, key: bytes | None = None) -> None:
        for value in values:
            self._producer.produce(self.topic, value, key, partition=partition, headers=[("traceparent", b"00")])
        assert self._producer.flush(DEADLINE_SECONDS) == 0

    def consumer(self, **membership: Any) -> Consumer:
        values: dict[str, Any] = {"service": "tests", "group": self.group, "topics": (self.topic,)}
        return Consumer(self.bootstrap, Membership(**values | {"strategy": "cooperative-sticky"} | membership))

    def reader(self) -> PartitionReader:
        return PartitionReader(self.bootstrap, self.group)

    def committed(self, partition: int = 0) -> int | None:
        with self.reader() as reader:
            source = TopicPartition(self.topic, partition)
            return reader.committed_offsets([source]).get(source)


def consume(consumer: Consumer, count: int) -> list[ConsumedMessage]:
    """The next ``count`` messages."""
    messages: list[ConsumedMessage] = []
    poll_until(consumer, lambda: len(messages) >= count, messages)
    assert len(messages) == count
    return messages


def poll_until(consumer: Consumer, done: Callable[[], bool], messages: list[ConsumedMessage] | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline
        batch = consumer.poll_batch(100, 0.1)
        if messages is not None:
            messages += batch


@pytest.fixture
def log(kafka_bootstrap: str, topic_factory: Callable[[str, int], str]) -> Log:
    made = Log(kafka_bootstrap, topic_factory("consumed", 2))
    deadline = time.monotonic() + DEADLINE_SECONDS
    with made.reader() as reader:
        while True:  # a topic just made has no leaders yet
            try:
                reader.end_offsets([TopicPartition(made.topic, 0), TopicPartition(made.topic, 1)])
            except Retry:
                assert time.monotonic() < deadline
            else:
                return made


@pytest.fixture
def start(log: Log) -> Iterator[Callable[..., Consumer]]:
    """Starts members of the log's group; all leave it afterwards."""
    with ExitStack() as closing:

        def started(**membership: Any) -> Consumer:
            consumer = log.consumer(**membership)
            closing.callback(consumer.close)
            return consumer

        yield started


class Member:
    """A member of the group, whose share is taken from it as if it had left."""

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log, self._consumer = log, consumer
        log.write(*[b"message"] * MESSAGES)

    def assign(self) -> list[TrackedOffset]:
        return [message.tracked for message in consume(self._consumer, MESSAGES)]

    def acknowledge(self, tracked: TrackedOffset) -> None:
        self._consumer.offsets.acknowledge_offset(tracked)

    def revoke(self) -> None:
        topics = list(self._consumer._membership.topics)
        callbacks: Any = {"on_assign": self._consumer._on_assign, "on_revoke": self._consumer._on_revoke}
        self._consumer._client.unsubscribe()
        poll_until(self._consumer, lambda: not self._consumer.offsets.partitions)
        self._consumer._client.subscribe(topics, **callbacks)

    def committed(self) -> int | None:
        self._consumer.poll_batch(1, 0)
        with suppress(KafkaException):  # there is nothing to commit
            self._consumer._client.commit(asynchronous=False)
        return self._log.committed()


class TestConsumer(OffsetContract):
    @pytest.fixture
    def committing(self, log: Log, start: Callable[..., Consumer]) -> Member:
        return Member(log, start())


def test_message_when_consumed_then_it_is_as_it_was_written(log: Log, start: Callable[..., Consumer]) -> None:
    log.write(b"value", None, partition=1, key=b"key")
    first, second = consume(start(), 2)
    assert (first.topic, first.partition, first.offset) == (log.topic, 1, 0)
    assert (first.key, first.value, first.headers) == (b"key", b"value", [("traceparent", b"00")])
    assert (second.key, second.value, second.offset) == (b"key", None, 1)


def test_partition_when_another_member_is_given_it_then_what_is_done_until_then_is_committed_and_later_is_not(
    log: Log, start: Callable[..., Consumer]
) -> None:
    in_flight: dict[int, list[ConsumedMessage]] = {0: [], 1: []}

    def finish_first(revoked: Sequence[TopicPartition]) -> None:
        for source in revoked:
            older.offsets.acknowledge_offset(in_flight[source.partition][0].tracked)

    older = start(on_revoke=finish_first)
    for partition in in_flight:
        log.write(b"done", b"open", partition=partition)
    for message in consume(older, 4):
        in_flight[message.partition].append(message)
    newer, taken_over = start(), list[ConsumedMessage]()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not taken_over:
        assert time.monotonic() < deadline
        assert older.poll_batch(10, 0.05) == []
        taken_over += newer.poll_batch(10, 0.05)
    (moved,) = taken_over
    assert moved.value == b"open"
    late = in_flight[moved.partition][1].tracked
    older.offsets.acknowledge_offset(late)
    assert not older.offsets.is_current(late)
    older.close()
    assert log.committed(moved.partition) == 1


def test_offsets_when_kept_elsewhere_then_each_assignment_begins_there_and_so_does_one_after_joining_anew(
    log: Log, start: Callable[..., Consumer]
) -> None:
    log.write(*(str(number).encode() for number in range(5)))
    starts = {0: 2, 1: 0}
    consumer = start(
        strategy="range", load_offsets=lambda sources: {source: starts[source.partition] for source in sources}
    )
    assert [message.value for message in consume(consumer, 3)] == [b"2", b"3", b"4"]
    starts[0] = 4
    consumer.rejoin_group()
    assert consumer.offsets.partitions == []
    (again,) = consume(consumer, 1)
    assert again.value == b"4"
    assert consumer.offsets.committable_offset(again.tracked.source) == 4


def test_topics_in_order_when_one_has_a_past_then_the_other_begins_after_it_and_does_not_wait_for_what_comes_then(
    log: Log, start: Callable[..., Consumer], topic_factory: Callable[[str, int], str]
) -> None:
    later = Log(log.bootstrap, topic_factory("later", 2))
    later.write(b"effect", partition=0)
    log.write(b"first", b"second", partition=0)
    later.write(b"beside", partition=1)
    consumer = start(
        topics=(log.topic, later.topic),
        strategy="range",
        load_offsets=lambda sources: dict.fromkeys(sources, 0),
        order={log.topic: 0, later.topic: 1}.get,
    )
    past = consume(consumer, 3)
    assert {message.value for message in past} == {b"first", b"second", b"beside"}
    log.write(b"third", partition=0)
    *_, new = sorted(
        [message for message in (*past, *consume(consumer, 1)) if message.topic == log.topic], key=lambda m: m.offset
    )
    assert new.value == b"third"
    assert consumer.poll_batch(10, 0.5) == []
    for message in past:
        consumer.offsets.acknowledge_offset(message.tracked)
    assert [message.value for message in consume(consumer, 1)] == [b"effect"]
    consumer.rejoin_group()
    again = consume(consumer, 4)
    assert b"effect" not in [message.value for message in again]


def test_end_of_a_partition_when_asked_for_then_it_is_after_what_is_written_by_now(
    log: Log, start: Callable[..., Consumer]
) -> None:
    log.write(b"first", b"second")
    consumer = start()
    (first, *_) = consume(consumer, 2)
    log.write(b"third")
    assert consumer.end_offset(first.tracked.source) == 3


def test_batch_when_more_is_there_then_it_has_no_more_than_was_asked_for(
    log: Log, start: Callable[..., Consumer]
) -> None:
    log.write(*[b"message"] * 50)
    consumer = start()
    sizes: list[int] = []
    while sum(sizes) < 50:
        sizes.append(len(consumer.poll_batch(7, 1)))
    assert max(sizes) <= 7


def test_consumer_when_paused_then_nothing_comes_until_it_is_resumed(log: Log, start: Callable[..., Consumer]) -> None:
    consumer = start()
    poll_until(consumer, lambda: len(consumer.offsets.partitions) == 2)
    consumer.set_paused(True)
    log.write(b"message")
    assert [consumer.poll_batch(10, 0.1) for _ in range(10)] == [[]] * 10
    consumer.set_paused(False)
    assert len(consume(consumer, 1)) == 1


def test_reader_when_it_reads_to_an_end_then_it_tells_what_is_before_it_and_stops(log: Log) -> None:
    log.write(b"a", None, b"b", key=b"key")
    log.write(b"c", partition=1)
    both = [TopicPartition(log.topic, 0), TopicPartition(log.topic, 1)]
    with log.reader() as reader:
        ends = reader.end_offsets(both)
        log.write(b"beyond")
        found = [(message.partition, message.value) for message in reader.read_messages(ends)]
        assert (reader.first_offsets(both), ends) == ({both[0]: 0, both[1]: 0}, {both[0]: 3, both[1]: 1})
    assert sorted(found, key=lambda each: each[0]) == [(0, b"a"), (0, None), (0, b"b"), (1, b"c")]


def test_reader_when_the_last_offset_is_a_marker_of_a_transaction_then_it_does_not_wait_for_more(log: Log) -> None:
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": log.group})
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce(log.topic, b"value", partition=0)
    producer.commit_transaction(DEADLINE_SECONDS)
    source = TopicPartition(log.topic, 0)
    deadline = time.monotonic() + DEADLINE_SECONDS
    with log.reader() as reader:
        while (ends := reader.end_offsets([source])) != {source: 2}:  # the marker is written after the answer
            assert time.monotonic() < deadline
        assert [message.value for message in reader.read_messages(ends)] == [b"value"]


def test_reader_when_nothing_is_there_then_it_returns_at_once(log: Log) -> None:
    source = TopicPartition(log.topic, 1)
    with log.reader() as reader:
        assert list(reader.read_messages(reader.end_offsets([source]))) == []
        assert reader.committed_offsets([source]) == {}


def test_reader_when_no_broker_answers_then_it_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "REQUEST_SECONDS", 0.3)
    source = TopicPartition("topic", 0)
    with PartitionReader("127.0.0.1:1", "group") as reader:
        for ask in (reader.end_offsets, reader.committed_offsets):
            with pytest.raises(Retry):
                ask([source])
        with pytest.raises(Retry, match="not be read to the end: topic/0"):
            list(reader.read_messages({source: 1}))


def test_message_when_much_waits_in_another_partition_then_it_does_not_wait_behind_all_of_it(
    log: Log, start: Callable[..., Consumer]
) -> None:
    waiting = 5_000
    for _ in range(waiting // 100):  # a fetch returns whole batches of the producer
        log.write(*[b"x" * 300] * 100)
    consumer, consumed = start(), list[ConsumedMessage]()
    poll_until(consumer, lambda: bool(consumed), consumed)
    log.write(b"news", partition=1)
    while all(message.value != b"news" for message in consumed):
        consumed += consumer.poll_batch(100, DEADLINE_SECONDS)
        time.sleep(0.01)  # what a batch costs
    assert len(consumed) < waiting / 2


def test_member_when_it_has_messages_and_acknowledges_none_then_the_broker_still_confirms_that_it_is_one(
    log: Log, start: Callable[..., Consumer]
) -> None:
    session = GroupSession(SESSION_SECONDS)
    consumer = start(session=session)
    assert not session.is_confirmed
    log.write(b"open")
    consume(consumer, 1)
    poll_until(consumer, lambda: session.is_confirmed)
    assert log.committed() in {None, 0}


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_member_when_it_has_left_then_nothing_comes_and_another_has_all_until_it_joins_again(
    log: Log, start: Callable[..., Consumer], strategy: str
) -> None:
    leaving, staying = start(strategy=strategy), start(strategy=strategy)
    poll_both(leaving, staying, lambda: len(leaving.offsets.partitions) == len(staying.offsets.partitions) == 1)
    leaving.leave_group()
    poll_both(leaving, staying, lambda: len(staying.offsets.partitions) == 2)
    assert leaving.offsets.partitions == []
    leaving.join_group()
    poll_both(leaving, staying, lambda: len(leaving.offsets.partitions) == len(staying.offsets.partitions) == 1)


def test_member_when_its_offsets_are_not_to_be_had_then_it_says_so_and_consumes_nothing(
    log: Log, start: Callable[..., Consumer]
) -> None:
    known: dict[TopicPartition, int] = {}
    consumer = start(strategy="range", load_offsets=lambda _: known)
    poll_until(consumer, lambda: consumer.lacks_starts)
    assert consumer.offsets.partitions == []
    known |= {TopicPartition(log.topic, 0): 0, TopicPartition(log.topic, 1): 0}
    consumer.leave_group()
    consumer.join_group()
    log.write(b"message")
    assert [message.value for message in consume(consumer, 1)] == [b"message"]
    assert not consumer.lacks_starts


def poll_both(one: Consumer, other: Consumer, done: Callable[[], bool]) -> None:
    """Poll each in turn until ``done``."""
    poll_until(one, lambda: bool(other.poll_batch(100, 0.05)) or done())
