"""The rows of the partitions this agent owns, as gitops.engine itself holds them.

The topic is compacted by the row's primary key, so it is the desired state: whoever is given a partition reads it once
from its beginning and knows every row. (A faust table would keep a second copy of the same rows in a changelog with
the same keys and partitions; its recovery was tried and hung in one of seven failovers, see ``engine_stream``.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import structlog

from services.common.errors import Poison
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

Decode = Callable[[bytes], EngineResource]
Identity = tuple[str, str, str, str]

YIELD_EVERY = 200


class DesiredState:
    """Rows by partition."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._rows: dict[int, dict[Identity, EngineResource]] = {}
        self.complete = True
        """Every row could be understood; if not, an object without a row may still be wanted."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())

    async def load(self, partitions: Mapping[int, list[bytes]]) -> None:
        """Take over ``partitions``: the newest value of each key. Raises Retry if the registry does not answer."""
        self._rows = {partition: {} for partition in partitions}
        self.complete = True
        for partition, values in partitions.items():
            for count, value in enumerate(values):
                self._load_one(partition, value)
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)

    def _load_one(self, partition: int, value: bytes) -> None:
        try:
            self.keep(partition, self._decode(value))
        except Poison as error:
            # As an event it became a dead letter when it came; the object it spoke of is unknown.
            self.complete = False
            log.warning("a row that cannot be understood is not part of the desired state", error=str(error))

    def keep(self, partition: int, row: EngineResource) -> None:
        """``row`` is the newest state of its object; a deleted row is forgotten."""
        rows = self._rows.setdefault(partition, {})
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
