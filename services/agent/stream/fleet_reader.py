"""Reads gitops.fleet: a compacted topic that is small, of which every agent reads all, as a member of no group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from services.agent import SERVICE
from services.common.avro import SchemaRegistry, decode_record
from services.common.errors import Poison, Retry
from services.common.kafka import Brokers, ConsumedMessage, PartitionReader, TopicPartition
from services.common.messages import FleetInstance
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

Decode = Callable[[bytes | None, bytes | None], FleetInstance]
"""From a message's key and value. Raises Poison, Retry (registry away)."""


class FleetReader:
    """Used by one thread at a time, and blocks it."""

    def __init__(self, brokers: Brokers, topic: str, group: str, decode: Decode) -> None:
        """Connects lazily. ``group``: the agents' own, which Kafka's clients have to name; nothing is committed."""
        self._brokers, self._topic, self._group, self._decode = brokers, topic, group, decode
        self._reader: PartitionReader | None = None
        self._partitions: Sequence[TopicPartition] = ()
        """Looked up once: a topic that is lost while we run is waited for."""
        self._ends: Mapping[TopicPartition, int] = {}
        """To where each partition was read."""

    def read_news(self) -> list[FleetInstance]:
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

    def _read_news(self) -> list[FleetInstance]:
        if self._reader is None:
            self._reader = PartitionReader(self._brokers, self._group)
        self._partitions = self._partitions or self._reader.partitions_of(self._topic)
        ends = self._reader.end_offsets(self._partitions)
        rows = [row for message in self._reader.read_messages(ends, self._starts(ends)) for row in self._rows(message)]
        self._ends = ends
        return rows

    def _starts(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where to go on: at the beginning if the topic is shorter than it was, for it was made anew."""
        return self._ends if all(end >= self._ends.get(source, 0) for source, end in ends.items()) else {}

    def _rows(self, message: ConsumedMessage) -> Iterator[FleetInstance]:
        """Its row; none if it cannot be understood: what was known of the instance stands."""
        try:
            yield self._decode(message.key, message.value)
        except Poison as error:
            metrics.count_failure(SERVICE, error, "decode")
            log.warning("a row of the fleet cannot be understood", offset=message.offset, error=str(error))


def instance_of(registry: SchemaRegistry, key: bytes | None, value: bytes | None) -> FleetInstance:
    """The row that a message is of: a value, or of a deleted one a tombstone, which has a key alone."""
    if value is None:
        return FleetInstance.from_tombstone(decode_record(registry, key))
    return FleetInstance.from_record(decode_record(registry, value))
