"""The rows of the partitions this agent owns, as gitops.engine itself holds them.

The topic is compacted by the row's primary key, so it is the desired state: an agent that is given a partition reads it
once from its beginning and knows every row. (A faust table would keep a second copy of the same rows in a changelog
with the same keys and partitions; its recovery was tried and hung in one of seven failovers, see ``engine_stream``.)

What is not committed comes again as messages, some of them older than the newest of their key, which was read already.
Their offsets tell which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import structlog

from services.agent.stream.snapshot import Snapshot
from services.common.errors import Poison
from services.common.kafka import ConsumedMessage, TopicPartition
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

Decode = Callable[[bytes], EngineResource]
Identity = tuple[str, str, str, str]

YIELD_EVERY = 200


class DesiredState:
    """Rows by partition."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._rows: dict[TopicPartition, dict[Identity, EngineResource]] = {}
        self._newest: dict[TopicPartition, dict[bytes, int]] = {}
        """Of each key that is consumed again, the offset at which it was read last."""
        self.complete = True
        """Every row could be understood; if not, an object without a row may still be wanted."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())

    async def load_snapshot(self, snapshot: Snapshot) -> None:
        """Hold these partitions, and no others. Raises Retry if the registry does not answer."""
        self._rows = {source: {} for source in snapshot.newest}
        self._newest = {
            source: {
                key: message.offset for key, message in newest.items() if message.offset >= snapshot.starts[source]
            }
            for source, newest in snapshot.newest.items()
        }
        self.complete = True
        for newest in snapshot.newest.values():
            for count, message in enumerate(newest.values()):
                self._load_row(message)
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)

    def is_superseded(self, message: ConsumedMessage) -> bool:
        """Whether a newer message of the same key was read already."""
        newest = self._newest.get(message.tracked.source, {})
        return message.offset < newest.get(message.key or b"", 0)

    def keep_row(self, source: TopicPartition, row: EngineResource) -> None:
        """``row`` is the newest state of its object; a deleted row is forgotten."""
        rows = self._rows.setdefault(source, {})
        if row.deleted:
            rows.pop(row.identity, None)
        else:
            rows[row.identity] = row

    def instances(self) -> set[str]:
        """The instances that rows speak of."""
        return {identity[0] for rows in self._rows.values() for identity in rows}

    def rows_of(self, instance: str) -> Iterator[EngineResource]:
        """All rows of ``instance``."""
        for rows in self._rows.values():
            yield from (row for identity, row in rows.items() if identity[0] == instance)

    def _load_row(self, message: ConsumedMessage) -> None:
        if not message.value:
            return  # a tombstone
        try:
            self.keep_row(message.tracked.source, self._decode(message.value))
        except Poison as error:
            # As a message it became a dead letter when it came; the object it spoke of is unknown.
            self.complete = False
            log.warning("a row that cannot be understood is not part of the desired state", error=str(error))
