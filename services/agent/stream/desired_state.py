"""The rows of the partitions that this agent owns, loaded from the topic itself.

The topic is compacted by the row's primary key, so it is the desired state: an agent that gets a partition reads it
once from its beginning and knows every row. It uses connections of its own: the position of faust's consumer belongs to
the stream, and its connection is busy with fetches. (A faust table would store a second copy of the rows in a changelog
with the same keys and partitions. Its recovery was tried and hung in one of seven failovers, see ``engine_stream``.)

Uncommitted messages come again, some of them older than the newest of their key, which was already read. Their offsets
tell which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import structlog

from services.common.errors import Poison
from services.common.kafka import Brokers, ConsumedMessage, PartitionReader, TopicPartition
from services.common.messages import EngineResource


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest message of each key of some partitions, up to their ends at the time of the read."""

    starts: dict[TopicPartition, int]
    """The first uncommitted offset of each partition."""
    newest: dict[TopicPartition, dict[bytes, ConsumedMessage]]


class SnapshotReader:
    """Reads one topic for one consumer group. Every method blocks, and raises Retry if the brokers do not answer."""

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


log = structlog.get_logger(__name__)

Decode = Callable[[bytes | None, bytes | None], EngineResource]
"""Decodes a message's key and value. Raises Poison, Retry (registry away)."""
Identity = tuple[str, str, str, str]

YIELD_EVERY = 200


class DesiredState:
    """The rows by partition."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._rows: dict[TopicPartition, dict[Identity, EngineResource]] = {}
        self._newest: dict[TopicPartition, dict[bytes, int]] = {}
        """For each key that is consumed again, the offset of its last read message."""
        self._unacknowledged: set[Identity] = set()
        """Identities of rows whose newest message was not committed when they were loaded."""
        self.complete = True
        """Whether every row could be decoded. If not, an object without a row may still be desired."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())

    async def load_snapshot(self, snapshot: Snapshot) -> None:
        """Load these partitions, and drop all others. Raises Retry if the registry does not answer."""
        self._rows = {source: {} for source in snapshot.newest}
        self._newest = {
            source: {
                key: message.offset for key, message in newest.items() if message.offset >= snapshot.starts[source]
            }
            for source, newest in snapshot.newest.items()
        }
        self.complete = True
        self._unacknowledged.clear()
        for source, newest in snapshot.newest.items():
            for count, message in enumerate(newest.values()):
                self._load_row(message, snapshot.starts[source])
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)

    def is_superseded(self, message: ConsumedMessage) -> bool:
        """Whether a newer message of the same key was read already."""
        newest = self._newest.get(message.tracked.source, {})
        return message.offset < newest.get(message.key or b"", 0)

    def store_row(self, source: TopicPartition, row: EngineResource) -> None:
        """Store the newest state of a row; a deleted row is dropped."""
        rows = self._rows.setdefault(source, {})
        if row.deleted:
            rows.pop(row.identity, None)
        else:
            rows[row.identity] = row

    def instances(self) -> set[str]:
        """The instances that have rows."""
        return {identity[0] for rows in self._rows.values() for identity in rows}

    def rows_of(self, instance: str) -> Iterator[EngineResource]:
        """All rows of ``instance``."""
        for rows in self._rows.values():
            yield from (row for identity, row in rows.items() if identity[0] == instance)

    def unacknowledged_rows_of(self, instance: str) -> list[EngineResource]:
        """The rows of ``instance`` whose newest message may not have had its effect: it comes again, perhaps late."""
        return [row for row in self.rows_of(instance) if row.identity in self._unacknowledged]

    def _load_row(self, message: ConsumedMessage, start: int) -> None:
        if not message.value:
            return  # a tombstone: there is no row
        try:
            row = self._decode(message.key, message.value)
            self.store_row(message.tracked.source, row)
            if message.offset >= start:
                self._unacknowledged.add(row.identity)
        except Poison as error:
            # As a message it became a dead letter when it came; the object it spoke of is unknown.
            self.complete = False
            log.warning("a row that cannot be understood is not part of the desired state", error=str(error))
