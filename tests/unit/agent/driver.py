"""Drives one instance in memory, and keeps the acknowledgements of its partition."""

from __future__ import annotations

from functools import partial

from services.agent.stream.owned_instances import pass_row, start_work
from services.common.kafka import OffsetTracker, TopicPartition
from services.common.messages import EngineResource
from tests.unit.agent.fakes import Bench
from tests.unit.fake_clock import settle

PARTITION = TopicPartition("gitops.engine", 0)


class Driver:
    """An instance that works, and the acknowledgements of its partition."""

    def __init__(self, parts: Bench) -> None:
        self.clock, self.cluster, self.reports = parts.clock, parts.cluster, parts.reports
        self.checker, self.engine = parts.checker, parts.engine
        self.instance, self.defects, self.inspections = parts.instance, parts.defects, parts.inspections
        self.offsets = OffsetTracker()
        self._next_offset = 0
        self.assign_partition()

    @property
    def acknowledged(self) -> list[int]:
        """Offsets that may be committed, in order; none without the partition."""
        return list(range(self.offsets.committable_offset(PARTITION) or 0))

    def assign_partition(self) -> None:
        """Have the partition from here on; what was submitted before is acknowledged no more."""
        self.offsets.assign_partitions({PARTITION: self._next_offset})

    def revoke_partition(self) -> None:
        """The partition is another agent's."""
        self.offsets.revoke_partitions([PARTITION])

    async def begin(self, *rows: EngineResource) -> None:
        self.instance.start()
        await settle()
        start_work(self.instance, rows)
        await settle()

    def submit(self, row: EngineResource) -> int:
        """Hand a row over; returns its offset."""
        tracked = self.offsets.track_offset(PARTITION, self._next_offset)
        assert tracked is not None
        self._next_offset += 1
        acknowledge = partial(self.offsets.acknowledge_offset, tracked)
        pass_row(self.instance, row, acknowledge)
        return tracked.offset

    async def apply(self, *rows: EngineResource) -> None:
        for row in rows:
            self.submit(row)
        await settle()
