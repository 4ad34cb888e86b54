"""Reads a small compacted topic: all of it, and then what is new, without joining a group."""

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
"""Decodes a message's key and value. Raises Poison, Retry (registry away)."""


class WholeTopicReader(Generic[RowT]):
    """A reader for one thread at a time, which it blocks."""

    def __init__(self, brokers: Brokers, topic: str, group: str, decode: Decode[RowT], service: str) -> None:
        """Connects lazily.

        Args:
            brokers: where the topic is.
            topic: its name.
            group: one of our groups, which Kafka's clients must name; nothing is committed.
            decode: makes a row of a message.
            service: the reading service, for metrics.
        """
        self.topic = topic
        self._brokers, self._group, self._decode = brokers, group, decode
        self._service = service
        self._reader: PartitionReader | None = None
        self._partitions: Sequence[TopicPartition] = ()
        """Looked up once. A topic that is lost later is waited for."""
        self._ends: Mapping[TopicPartition, int] = {}
        """The end of what was read of each partition."""

    def read_news(self) -> list[RowT]:
        """The rows written since the last call; at first, and after an error, all rows of the topic.

        Raises Retry if the brokers or the registry do not answer, InvalidConfiguration if the topic has never existed.
        """
        try:
            return self._read_news()
        except Retry:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. The next read begins at the start of the topic."""
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
        """Where to continue: at the beginning if the topic is shorter than before, because it was created again."""
        return self._ends if all(end >= self._ends.get(source, 0) for source, end in ends.items()) else {}

    def _rows(self, message: ConsumedMessage) -> Iterator[RowT]:
        """The message's row; none if it cannot be decoded. Then the object's last row stays."""
        try:
            yield self._decode(message.key, message.value)
        except Poison as error:
            metrics.count_failure(self._service, error, "decode")
            log.warning("a row cannot be understood", topic=self.topic, offset=message.offset, error=str(error))
