"""What partitions of gitops.engine hold, read from their beginning over connections of its own.

Not by faust's consumer: its position belongs to the stream, and its connection is busy with fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.common.kafka import Brokers, ConsumedMessage, PartitionReader, TopicPartition


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest message of each key of some partitions, up to where they ended when they were read."""

    starts: dict[TopicPartition, int]
    """From where on each partition's messages are not committed."""
    newest: dict[TopicPartition, dict[bytes, ConsumedMessage]]


class SnapshotReader:
    """One topic as one consumer group sees it. Every method blocks, and raises Retry if the brokers do not answer."""

    def __init__(self, brokers: Brokers, topic: str, group: str) -> None:
        self._brokers, self._topic, self._group = brokers, topic, group

    def read_snapshot(self, partitions: Iterable[int]) -> Snapshot:
        """The snapshot of ``partitions``."""
        with self._reader() as reader:
            sources = self._sources(partitions)
            ends, first, committed = (
                reader.end_offsets(sources),
                reader.first_offsets(sources),
                reader.committed_offsets(sources),
            )
            starts = {source: min(max(first[source], committed.get(source, 0)), ends[source]) for source in sources}
            newest: dict[TopicPartition, dict[bytes, ConsumedMessage]] = {source: {} for source in sources}
            for message in reader.read_messages(ends):
                newest[message.tracked.source][message.key or b""] = message
        return Snapshot(starts, newest)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last message of each of ``partitions``."""
        with self._reader() as reader:
            ends = reader.end_offsets(self._sources(partitions))
        return {source.partition: end for source, end in ends.items()}

    def _reader(self) -> PartitionReader:
        # Made anew each time: one that has met an older broker may send its leader epoch for ever, and be fenced.
        return PartitionReader(self._brokers, self._group)

    def _sources(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in sorted(partitions)]
