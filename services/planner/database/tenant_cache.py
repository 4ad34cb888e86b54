"""The tenants in memory: whole, as they are in the database, or will be once the open transaction is committed.

This is safe because a partition has one owner, which every transaction verifies. All are dropped when a partition is
taken up and when a transaction fails; the least recently used are dropped when they exceed the limit.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from services.planner.domain.indexed_rows import differing
from services.planner.domain.state import TableName, TenantState
from services.planner.rows.tenants import Tenant, TenantName

OVERHEAD = 500
"""Bytes of a row besides its texts: its fields, its ids and times, and its place in the table."""


@dataclass(slots=True)
class _Kept:
    """All tenants of a name that there are."""

    states: dict[UUID, TenantState]
    size: int


class TenantCache:
    """The least recently used are dropped once all of them are larger than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[TenantName, _Kept] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        """How many names."""
        return len(self._kept)

    def find_tenants(self, name: TenantName) -> Collection[TenantState] | None:
        """Those that have the name and had it, as they are in the database; None if that has to be asked."""
        kept = self._kept.get(name)
        if kept is None:
            return None
        self._kept.move_to_end(name)
        return kept.states.values()

    def keep_tenants(self, name: TenantName, states: Iterable[TenantState]) -> None:
        """The database holds these of the name, and no others."""
        self.forget_name(name)
        found = {state.tenant.id: state for state in states}
        self._keep(name, _Kept(found, OVERHEAD + sum(_growth(None, state) for state in found.values())))

    def keep_tenant(self, tenant: Tenant, state: TenantState | None) -> None:
        """The database holds the tenant as ``state``, from which its next plan begins; nothing of it if that is None.

        Its tables know by which rows they differ from those that the plan began with: these were kept before. If its
        name was not kept, there may be others of it.
        """
        kept = self._kept.pop(tenant.full_name, None)
        if kept is None:
            return
        self.size -= kept.size
        before = kept.states.pop(tenant.id, None)
        size = kept.size + _growth(before, state)
        if state is not None:
            state.reset_baseline()
            kept.states[tenant.id] = state
        if kept.states:
            self._keep(tenant.full_name, _Kept(kept.states, size))

    def forget_name(self, name: TenantName) -> None:
        """Forget what the database holds of the tenants of this name."""
        kept = self._kept.pop(name, None)
        self.size -= kept.size if kept is not None else 0

    def forget_tenants(self) -> None:
        """Forget what the database holds of every tenant."""
        self._kept.clear()
        self.size = 0

    def _keep(self, name: TenantName, kept: _Kept) -> None:
        self._kept[name] = kept
        self.size += kept.size
        while self.size > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size


def _growth(before: TenantState | None, now: TenantState | None) -> int:
    old, new = _tables(before), _tables(now)
    return sum(_table_growth(old.get(name, {}), new.get(name, {})) for name in {**old, **new})


def _tables(state: TenantState | None) -> Mapping[TableName, Mapping[Any, Any]]:
    return state.tables() if state is not None else {}


def _table_growth(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> int:
    return sum(_size(now.get(key)) - _size(before.get(key)) for key in differing(now, before))


def _size(row: Any) -> int:
    return 0 if row is None else OVERHEAD + sum(map(sys.getsizeof, _texts(row)))


def _texts(row: Any) -> Iterator[str]:
    return (text for name in row.__match_args__ if isinstance(text := getattr(row, name), str))
