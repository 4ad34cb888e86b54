"""The rows of the partitions this agent holds: a changelog-backed table, and the same rows decoded.

The table's changelog is what survives an agent: who owns a partition next reads it and knows every row. A key begins
with the row's partition, so that what belongs to a partition is told apart from what a former assignment left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, MutableMapping

from services.common.messages import EngineResource

Decode = Callable[[bytes], EngineResource]
Identity = tuple[str, str, str, str]

YIELD_EVERY = 200


class DesiredState:
    """Rows by partition. Written only while the event that carries the row is being processed: faust demands it."""

    def __init__(self, table: MutableMapping[bytes, bytes], decode: Decode) -> None:
        """``table`` holds the message's bytes as they were; ``decode`` understands them."""
        self._table, self._decode = table, decode
        self._rows: dict[int, dict[Identity, EngineResource]] = {}

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())

    async def load(self, partitions: Iterable[int]) -> None:
        """Take over ``partitions`` from the recovered table. Raises Retry if the registry does not answer."""
        rows: dict[int, dict[Identity, EngineResource]] = {partition: {} for partition in partitions}
        for count, (key, value) in enumerate(list(self._table.items())):
            partition = int(key.split(b"/", 1)[0])
            if partition in rows:
                row = self._decode(value)
                rows[partition][row.identity] = row
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        self._rows = rows

    def keep(self, partition: int, row: EngineResource, value: bytes) -> None:
        """``row`` is the newest state of its object; a deleted row is forgotten."""
        key, rows = _key(partition, row), self._rows.setdefault(partition, {})
        if row.deleted:
            rows.pop(row.identity, None)
            self._table.pop(key, None)
            return
        rows[row.identity] = row
        if self._table.get(key) != value:
            self._table[key] = value

    def instances(self) -> set[str]:
        """The instances that rows speak of."""
        return {identity[0] for rows in self._rows.values() for identity in rows}

    def rows_of(self, instance: str) -> Iterator[EngineResource]:
        """All rows of ``instance``."""
        for rows in self._rows.values():
            yield from (row for identity, row in rows.items() if identity[0] == instance)


def _key(partition: int, row: EngineResource) -> bytes:
    return "/".join((str(partition), *row.identity)).encode()
