"""Reads partitions of gitops.engine from their beginning, over connections of its own.

Not by faust's consumer: its position belongs to the stream, and its connection is busy with fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.common.errors import Retry
from services.common.kafka import Brokers, client_properties

SECONDS = 10.0
BATCH = 1000
CONSUME_SECONDS = 0.1  # a call returns when the batch is full or the time is over


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a partition holds that its group has not committed: from ``start`` up to, not including, ``end``."""

    start: int
    end: int


class TopicReader:
    """One topic as one consumer group sees it. Every method blocks, and raises Retry if the brokers do not answer."""

    def __init__(self, brokers: Brokers, topic: str, group: str) -> None:
        self._topic, self._group = topic, group
        self._settings = client_properties(brokers) | {"log_level": 0}

    def backlogs(self, partitions: Iterable[int]) -> dict[int, Backlog]:
        """The backlog of each of ``partitions``; empty ones have start == end."""
        wanted = sorted(partitions)
        # Made anew each time: one that has met an older broker may send its leader epoch for ever, and be fenced.
        admin = AdminClient(self._settings)
        ends = self._offsets(admin, wanted, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        begins = self._offsets(admin, wanted, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        committed = self._committed(admin, wanted)
        starts = {partition: max(begins[partition], committed.get(partition, 0)) for partition in wanted}
        return {partition: Backlog(min(starts[partition], ends[partition]), ends[partition]) for partition in wanted}

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last message of each of ``partitions``."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(AdminClient(self._settings), sorted(partitions), latest)

    def newest(self, ends: dict[int, int]) -> dict[int, list[bytes]]:
        """By partition, the newest value of each key up to the given end offsets; tombstones left out."""
        values: dict[int, dict[bytes, bytes | None]] = {partition: {} for partition in ends}
        consumer = Consumer(
            self._settings
            | {
                "group.id": f"{self._group}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        try:
            self._read(consumer, {partition: end for partition, end in ends.items() if end > 0}, values)
        finally:
            consumer.close()
        return {partition: [value for value in rows.values() if value] for partition, rows in values.items()}

    def _read(self, consumer: Consumer, ends: dict[int, int], values: dict[int, dict[bytes, bytes | None]]) -> None:
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in ends])
        unread, idle = set(ends), 0.0
        while unread:
            messages = self._consumed(consumer)
            idle = 0.0 if messages else idle + CONSUME_SECONDS
            if idle >= SECONDS:
                raise Retry(f"{self._topic} could not be read to its end: partitions {sorted(unread)}")
            for message in messages:
                partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise Retry(f"{self._topic} could not be read: {error}")
                # What lies beyond comes as events, in its order.
                if error is None and offset < ends[partition]:
                    values[partition][message.key() or b""] = message.value()
                if error is not None or offset + 1 >= ends[partition]:
                    unread.discard(partition)

    def _consumed(self, consumer: Consumer) -> list[Message]:
        try:
            return consumer.consume(BATCH, timeout=CONSUME_SECONDS)
        except KafkaException as error:
            raise Retry(f"{self._topic} could not be read: {error}") from error

    def _offsets(self, admin: AdminClient, partitions: list[int], which: OffsetSpec) -> dict[int, int]:
        if not partitions:
            return {}
        answers = admin.list_offsets(
            {TopicPartition(self._topic, partition): which for partition in partitions}, request_timeout=SECONDS
        )
        try:
            return {tp.partition: answer.result(timeout=SECONDS).offset for tp, answer in answers.items()}
        except (KafkaException, TimeoutError) as error:
            raise Retry(f"offsets of {self._topic}: {error}") from error

    def _committed(self, admin: AdminClient, partitions: list[int]) -> dict[int, int]:
        if not partitions:
            return {}
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        answers = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self._group, wanted)])
        try:
            (answer,) = [each.result(timeout=SECONDS) for each in answers.values()]
        except (KafkaException, TimeoutError) as error:
            raise Retry(f"committed offsets of {self._group}: {error}") from error
        return {tp.partition: tp.offset for tp in answer.topic_partitions if tp.offset >= 0}
