"""Drives one instance in memory, and keeps the acknowledgements of its partition."""

from __future__ import annotations

from services.agent.acknowledgement import PartitionLedger
from services.common.messages import EngineResource
from tests.unit.agent.fakes import Bench, FakeEvent, settle


class Driver:
    """An instance that works, and the acknowledgements of its partition."""

    def __init__(self, parts: Bench) -> None:
        self.clock, self.cluster, self.reports = parts.clock, parts.cluster, parts.reports
        self.composers = parts.composers
        self.instance, self.defects = parts.instance, parts.defects
        self.ledger = PartitionLedger()
        self.acknowledged: list[int] = []
        self._offset = 0

    async def begin(self, *rows: EngineResource) -> None:
        self.instance.start()
        await settle()
        self.instance.work(rows)
        await settle()

    def submit(self, row: EngineResource) -> int:
        """Hand a row over; returns its offset."""
        offset = self._offset
        self._offset += 1
        ticket = self.ledger.enter(FakeEvent(offset, self.acknowledged))
        self.instance.forget(row, ticket) if row.deleted else self.instance.submit(row, ticket)
        return offset

    async def apply(self, *rows: EngineResource) -> None:
        for row in rows:
            self.submit(row)
        await settle()
