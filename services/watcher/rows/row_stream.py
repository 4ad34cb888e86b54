"""One topic of rows, from its consumer to its writes. A failure of one stream does not stop another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Generic

from services.watcher.rows.delivery import RowDelivery
from services.watcher.rows.row_consumer import RowConsumer
from services.watcher.rows.row_types import RowT


@dataclass(frozen=True, slots=True)
class RowStream(Generic[RowT]):
    """The parts of one stream."""

    consumer: RowConsumer[RowT]
    delivery: RowDelivery[RowT]
    writers: int
    """How many rows are written at a time."""

    async def consume(self) -> None:
        """Hand rows to the delivery until the consumer is stopped. Raises Unavailable."""
        await asyncio.to_thread(self.consumer.run, self.delivery)

    async def write(self) -> None:
        """Write rows, for ever. Raises Unavailable."""
        await self.delivery.run(self.writers)
