"""Reads a compacted topic that is small, all of it and then what is new, as a member of no group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import structlog

from services.common.errors import Poison, Retry
from services.common.kafka.brokers import Brokers
from services.common.kafka.consumed_message import ConsumedMessage
from services.common.kafka.offset_tracker import TopicPartition
from services.common.kafka.partition_reader import PartitionReader
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

RowT = TypeVar("RowT")
Decode = Callable[[bytes | None, bytes | None], RowT]
"""From a message's key and value. Raises Poison, Retry (registry away)."""


class WholeTopicReader(Generic[RowT]):
    """Used by one thread at a time, and blocks it."""

    def __init__(self, brokers: Brokers, topic: str, group: str, decode: Decode[RowT], service: str) -> None:
        """Connects lazily.

        Args:
            brokers: where the topic is.
            topic: its name.
            group: one of ours, which Kafka's clients have to name; nothing is committed.
            decode: makes a row of a message.
            service: who reads, for metrics.
        """
        self.topic = topic
        self._brokers, self._group, self._decode = brokers, group, decode
        self._service = service
        self._reader: PartitionReader | None = None
        self._partitions: Sequence[TopicPartition] = ()
        """Looked up once: a topic that is lost while we run is waited for."""
        self._ends: Mapping[TopicPartition, int] = {}
        """To where each partition was read."""

    def read_news(self) -> list[RowT]:
        """Every row that was written since the last call; at first, and after an error, all that the topic has.

        Raises Retry if the brokers or the registry do not answer, InvalidConfiguration if there never was the topic.
        """
        try:
            return self._read_news()
        except Retry:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; what is read next begins anew."""
        if self._reader is not None:
            self._reader.close()
        self._reader, self._ends = None, {}

    def _read_news(self) -> list[RowT]:
        if self._reader is None:
            self._reader = PartitionReader(self._brokers, self._group)
        self._partitions = self._partitions or self._reader.partitions_of(self.topic)
        ends = self._reader.end_offsets(self._partitions)
        rows = [row for message in self._reader.read_messages(ends, self._starts(ends)) for row in self._rows(message)]
        self._ends = ends
        return rows

    def _starts(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where to go on: at the beginning if the topic is shorter than it was, for it was made anew."""
        return self._ends if all(end >= self._ends.get(source, 0) for source, end in ends.items()) else {}

    def _rows(self, message: ConsumedMessage) -> Iterator[RowT]:
        """Its row; none if it cannot be understood: what was known of its object stands."""
        try:
            yield self._decode(message.key, message.value)
        except Poison as error:
            metrics.count_failure(self._service, error, "decode")
            log.warning("a row cannot be understood", topic=self.topic, offset=message.offset, error=str(error))
