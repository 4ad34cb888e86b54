"""Bounds the bytes of pending changes in memory. Pure; used by :mod:`pending_changes`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MEBIBYTE = 1024 * 1024


@dataclass(slots=True)
class HeldBytes:
    """At most ``of_tenant`` bytes of one tenant, and ``of_all`` of all together."""

    of_tenant: int = MEBIBYTE
    of_all: int = 16 * MEBIBYTE
    _by_tenant: Counter[str] = field(default_factory=Counter)
    _total: int = 0

    def __len__(self) -> int:
        return self._total

    def take(self, tenant: str, size: int) -> bool:
        """Whether there is room for ``size`` bytes more of ``tenant``, which are then counted."""
        if self._by_tenant[tenant] + size > self.of_tenant or self._total + size > self.of_all:
            return False
        self._add(tenant, size)
        return True

    def give(self, tenant: str, size: int) -> None:
        """``size`` bytes of ``tenant`` are held no longer."""
        self._add(tenant, -size)

    def clear(self) -> None:
        """Nothing is held."""
        self._by_tenant.clear()
        self._total = 0

    def _add(self, tenant: str, size: int) -> None:
        self._total += size
        self._by_tenant[tenant] += size
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
