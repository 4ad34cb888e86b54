"""Takes batches from ``gitops.commands`` and ``gitops.observations``, from where the database says.

One consumer for both topics. With the assignment strategy "range" equal partition numbers of both go to the same
process, and so all that concerns a tenant does. Kafka's committed offsets are a hint for tools that show lag.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from services.common.errors import Retry
from services.common.kafka import Brokers, client_properties
from services.common.telemetry.metrics import BATCH_SIZE, HOP, LAG, Direction, Failure, count_failure, count_message
from services.planner import SERVICE
from services.planner.offsets import Span, TopicPartition

log = structlog.get_logger(__name__)

GROUP = "gitops-planner"
HINT_SECONDS = 5.0
REQUEST_SECONDS = 5.0
COMPLAINT_SECONDS = 30.0
SESSION_MS = 6_000

Positions = Callable[[Sequence[TopicPartition]], dict[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in the order in which they were taken up, and the offsets they span."""

    messages: tuple[Message, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, messages: Iterable[Message], expected: dict[TopicPartition, int]) -> Batch:
        """The batch of ``messages``, less those taken up before and those of partitions that are not ours."""
        ends = dict(expected)
        taken = []
        for message in messages:
            place = place_of(message)
            offset = message.offset() or 0
            if place in ends and offset >= ends[place]:
                ends[place] = offset + 1
                taken.append(message)
        moved = sorted(place for place, end in ends.items() if end != expected[place])
        return cls(tuple(taken), tuple(Span(*place, expected[place], ends[place]) for place in moved))

    def singles(self) -> Iterator[Batch]:
        """The same messages, each as a batch of its own."""
        expected = {(span.topic, span.partition): span.expected for span in self.spans}
        for message in self.messages:
            single = Batch.of([message], expected)
            expected |= {(span.topic, span.partition): span.next for span in single.spans}
            yield single


class LogConsumer:
    """See the module. Not for more than one thread; rebalances happen inside :meth:`batch`."""

    def __init__(self, brokers: Brokers, topics: Sequence[str], positions: Positions, group: str = GROUP) -> None:
        """``positions`` reads the database; it is asked at each assignment and must not give up."""
        self._positions = positions
        self._expected: dict[TopicPartition, int] = {}
        self._hinted = 0.0
        self._unhinted: dict[TopicPartition, int] = {}
        self._complained = -COMPLAINT_SECONDS
        self._consumer = Consumer(configuration(brokers, group) | {"error_cb": self._complain})
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    @property
    def partitions(self) -> list[int]:
        """The partitions that are ours, by number: the same of both topics."""
        return sorted({partition for _, partition in self._expected})

    def batch(self, limit: int, timeout_seconds: float) -> Batch:
        """Wait for a message, then take what else is here already, up to ``limit``. May be empty."""
        first = self._consumer.poll(timeout_seconds)
        if first is None:
            return Batch((), ())
        rest = self._consumer.consume(limit - 1, 0) if limit > 1 else []
        batch = Batch.of(filter(_usable, [first, *rest]), self._expected)
        _measure(batch)
        return batch

    def done(self, spans: Sequence[Span]) -> None:
        """The database has the effects of ``spans``."""
        for span in spans:
            place = (span.topic, span.partition)
            if place in self._expected:
                self._expected[place] = self._unhinted[place] = span.next
        if time.monotonic() - self._hinted >= HINT_SECONDS:
            self._hint()

    def rewind(self) -> None:
        """Go on from where the database says, whatever was read already."""
        self._assign(sorted(self._expected))

    def fence(self, partitions: Iterable[int]) -> list[Span]:
        """Spans without messages: they can be saved only as long as these partitions are ours."""
        wanted = set(partitions)
        return [Span(*place, end, end) for place, end in sorted(self._expected.items()) if place[1] in wanted]

    def measure_lag(self) -> None:
        """Set the lag of each partition, from what the broker said with the last messages."""
        for topic, partition in self._expected:
            _, end = self._consumer.get_watermark_offsets(KafkaPartition(topic, partition), cached=True)
            behind = max(0, end - self._expected[topic, partition])
            LAG.labels(SERVICE, topic, str(partition)).set(behind)

    def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Number of partitions of each topic that exists. Raises Retry if the brokers do not answer."""
        try:
            known = self._consumer.list_topics(timeout=REQUEST_SECONDS).topics
        except KafkaException as error:
            raise Retry(str(error.args[0])) from error
        return {topic: len(known[topic].partitions) for topic in topics if topic in known and not known[topic].error}

    def close(self) -> None:
        """Leave the group, with a last hint."""
        self._hint()
        self._consumer.close()

    def _assigned(self, _: Consumer, assigned: list[KafkaPartition]) -> None:
        self._assign([(partition.topic, partition.partition) for partition in assigned])

    def _assign(self, places: Sequence[TopicPartition]) -> None:
        self._expected = self._positions(places) if places else {}
        self._consumer.assign([KafkaPartition(*place, self._expected[place]) for place in sorted(self._expected)])
        log.info("partitions assigned", partitions=len(self._expected))

    def _revoked(self, _: Consumer, revoked: list[KafkaPartition]) -> None:
        for partition in revoked:
            place = (partition.topic, partition.partition)
            self._expected.pop(place, None)
            self._unhinted.pop(place, None)
            LAG.remove(SERVICE, place[0], str(place[1]))
        log.info("partitions revoked", partitions=len(revoked))

    def _complain(self, error: KafkaError) -> None:
        """The client goes on by itself, as long as it takes; say why nothing comes, now and then."""
        count_failure(SERVICE, Failure.RETRY, "kafka")
        if time.monotonic() - self._complained >= COMPLAINT_SECONDS:
            self._complained = time.monotonic()
            log.warning("Kafka does not answer", error=error.str())

    def _hint(self) -> None:
        offsets = [KafkaPartition(*place, offset) for place, offset in self._unhinted.items()]
        self._hinted, self._unhinted = time.monotonic(), {}
        try:
            if offsets:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            log.info("offset hint not sent", error=str(error))


def configuration(brokers: Brokers, group: str) -> dict[str, Any]:
    """Settings of the consumer: a message is handed over as soon as the broker has it."""
    return client_properties(brokers) | {
        "client.id": SERVICE,
        "group.id": group,
        "partition.assignment.strategy": "range",
        # After a kill -9 the partitions are free again this soon: a planner that starts anew waits for no longer.
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": SESSION_MS // 3,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "fetch.min.bytes": 1,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 20,
        "queued.max.messages.kbytes": 65536,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "socket.nagle.disable": True,
        # It would write a line for each attempt to connect; what matters of that comes to the error callback.
        "log_level": 2,
    }


def place_of(message: Message) -> TopicPartition:
    """Topic and partition of ``message``."""
    return (message.topic() or "", message.partition() or 0)


def _usable(message: Message) -> bool:
    """Errors come as messages; librdkafka recovers from all of them by itself, so they are only told."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        count_failure(SERVICE, Failure.RETRY, "consume")
        log.warning("consumer", error=str(error))
    return error is None


def _measure(batch: Batch) -> None:
    if not batch.messages:
        return
    BATCH_SIZE.labels(SERVICE).observe(len(batch.messages))
    now = time.time()
    for message in batch.messages:
        topic = message.topic() or ""
        count_message(SERVICE, topic, Direction.RECEIVED)
        HOP.labels(SERVICE, topic).observe(max(0.0, now - message.timestamp()[1] / 1000))
