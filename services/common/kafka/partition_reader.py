"""Reads partitions from given offsets on, without joining a group or committing.

:class:`~services.common.kafka.consumer.Consumer` reads as a member of a group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError
from confluent_kafka import Consumer as KafkaClient
from confluent_kafka import TopicPartition as ClientPartition

from services.common.errors import Retry
from services.common.kafka.brokers import Brokers, answered, consumer_properties, count_partitions, existing_partitions
from services.common.kafka.consumed_message import (
    ConsumedMessage,
    consumed_message,
    source_of_message,
    source_of_partition,
)
from services.common.kafka.offset_tracker import TopicPartition, TrackedOffset
from services.common.kafka.topics import is_observations_topic

REQUEST_SECONDS = 10.0
READ_BATCH = 1000
READ_SECONDS = 0.1
UNTRACKED = 0
"""Number of the assignment of messages that are read here: nobody acknowledges them."""


class PartitionReader:
    """A reader for one thread. Every method may block, and raises Retry if the brokers do not answer."""

    def __init__(self, brokers: Brokers, group: str) -> None:
        """Connects lazily. ``group``: the group whose offsets :meth:`committed_offsets` returns."""
        eof = {"enable.auto.commit": False, "enable.partition.eof": True}
        self._brokers, self._client = brokers, KafkaClient(consumer_properties(brokers, group) | eof)
        self._next: dict[TopicPartition, int] = {}
        """The next offset to read of each assigned partition."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def assign_partitions(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._next = dict(starts)
        self._client.assign([ClientPartition(*source, start) for source, start in sorted(starts.items())])

    def read_batch(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        """Up to ``limit`` messages that come within this time. May be empty."""
        with answered("messages"):
            polled = self._client.consume(limit, timeout_seconds)
        messages = []
        for message in polled:
            source, offset, error = source_of_message(message), message.offset() or 0, message.error()
            if error is None:
                messages.append(consumed_message(message, TrackedOffset(source, offset, UNTRACKED)))
                self._next[source] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # what is before: markers of transactions, or compacted
                self._next[source] = offset
            else:
                raise Retry(f"could not be read: {error.str()}")
        return messages

    def read_messages(
        self, ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int] = MappingProxyType({})
    ) -> Iterator[ConsumedMessage]:
        """All messages before ``ends``, from ``starts`` on; without a start, from the beginning."""
        begin = {source: starts.get(source, 0) for source in ends}
        self.assign_partitions({source: begin[source] for source, end in ends.items() if end > begin[source]})
        yield from (message for message in self.read_on(ends) if message.offset < ends[message.tracked.source])

    def read_on(self, ends: Mapping[TopicPartition, int]) -> Iterator[ConsumedMessage]:
        """The unread messages of the assigned partitions, up to ``ends`` at least."""
        silent_since = time.monotonic()
        while unread := {
            source: end - self._next[source] for source, end in ends.items() if self._is_unread(source, end)
        }:
            messages = self.read_batch(min(READ_BATCH, sum(unread.values())), READ_SECONDS)
            yield from messages
            if messages:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since >= REQUEST_SECONDS:
                raise Retry(f"could not be read to the end: {', '.join(f'{t}/{p}' for t, p in sorted(unread))}")

    def _is_unread(self, source: TopicPartition, end: int) -> bool:
        return self._next.get(source, end) < end

    def partitions_of(self, *topics: str) -> list[TopicPartition]:
        """All partitions of these topics. Raises InvalidConfiguration naming a topic that does not exist."""
        counts = count_partitions(self._brokers, topics)
        return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]

    def partitions_of_observations(self) -> list[TopicPartition]:
        """All partitions of the existing topics of observations."""
        counts = existing_partitions(self._brokers)
        topics = sorted(filter(is_observations_topic, counts))
        return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets. Partitions without one are left out."""
        wanted = [ClientPartition(*source) for source in sorted(partitions)]
        with answered("committed offsets"):
            known = self._client.committed(wanted, timeout=REQUEST_SECONDS) if wanted else []
        return {source_of_partition(each): each.offset for each in known if each.offset >= 0}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of each partition's first existing message."""
        return self._log_offsets(partitions, OFFSET_BEGINNING)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last message of each partition."""
        return self._log_offsets(partitions, OFFSET_END)

    def offsets_at(self, partitions: Iterable[TopicPartition], at: datetime) -> dict[TopicPartition, int]:
        """The offset of each partition's first message written at that time or later; the end if there is none."""
        found = self._log_offsets(partitions, round(at.timestamp() * 1000))
        ends = self.end_offsets(found)
        return {source: offset if offset >= 0 else ends[source] for source, offset in found.items()}

    def _log_offsets(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(*source, which) for source in sorted(partitions)]
        with answered("offsets"):
            known = self._client.offsets_for_times(wanted, timeout=REQUEST_SECONDS) if wanted else []
        for each in known:
            if each.error is not None:
                raise Retry(f"offsets of {each.topic}/{each.partition}: {each.error.str()}")
        return {source_of_partition(each): each.offset for each in known}
