"""The tenants in memory: whole, as they are in the database, or will be once the open transaction is committed.

This is safe because a partition has one owner, which every transaction verifies. All are dropped when a partition is
taken up and when a transaction fails; the least recently used are dropped when they exceed the limit.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from services.planner.domain.indexed_rows import differing
from services.planner.domain.state import TABLES, TenantState

OVERHEAD = 500
"""Bytes of a row besides its texts: its fields, its ids and times, and its place in the table."""


@dataclass(slots=True)
class _Kept:
    state: TenantState
    size: int


class TenantCache:
    """The least recently used are dropped once all of them are larger than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[UUID, _Kept] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find_tenant(self, tenant: UUID) -> TenantState | None:
        """The tenant as it is in the database; None if that has to be asked."""
        kept = self._kept.get(tenant)
        if kept is None:
            return None
        self._kept.move_to_end(tenant)
        return kept.state

    def keep_tenant(self, tenant: UUID, state: TenantState | None) -> None:
        """The database holds the tenant as ``state``, from which its next plan begins; nothing of it if that is None.

        Its tables know by which rows they differ from those that the plan began with: these were kept before.
        """
        kept = self._kept.pop(tenant, None)
        self.size -= kept.size if kept is not None else 0
        if state is None:
            return
        size = kept.size + _growth(kept.state, state) if kept is not None else _growth(None, state)
        state.reset_baseline()
        self._kept[tenant] = _Kept(state, size)
        self.size += size
        while self.size > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size

    def forget_tenants(self) -> None:
        """It is not known what the database holds."""
        self._kept.clear()
        self.size = 0


def _growth(before: TenantState | None, now: TenantState) -> int:
    return sum(_table_growth(getattr(before, name) if before else {}, getattr(now, name)) for name in TABLES)


def _table_growth(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> int:
    return sum(_size(now.get(key)) - _size(before.get(key)) for key in differing(now, before))


def _size(row: Any) -> int:
    return 0 if row is None else OVERHEAD + sum(map(sys.getsizeof, _texts(row)))


def _texts(row: Any) -> Iterator[str]:
    return (text for name in row.__match_args__ if isinstance(text := getattr(row, name), str))
