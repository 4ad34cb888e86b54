"""Bounds the bytes of pending changes in memory. Pure; used by :mod:`pending_changes`."""

from __future__ import annotations

from dataclasses import dataclass, field

MEBIBYTE = 1024 * 1024


@dataclass(slots=True)
class HeldBytes:
    """At most ``of_tenant`` bytes of one tenant, and ``of_all`` of all together."""

    of_tenant: int = MEBIBYTE
    of_all: int = 16 * MEBIBYTE
    _by_tenant: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def __len__(self) -> int:
        return self._total

    def take(self, tenant: str, size: int) -> bool:
        """Whether there is room for ``size`` bytes more of ``tenant``, which are then counted."""
        held = self._by_tenant.get(tenant, 0) + size
        if held > self.of_tenant or self._total + size > self.of_all:
            return False
        self._by_tenant[tenant] = held
        self._total += size
        return True

    def give(self, tenant: str, size: int) -> None:
        """``size`` bytes of ``tenant`` are held no longer."""
        held = self._by_tenant.pop(tenant, 0) - size
        if held > 0:
            self._by_tenant[tenant] = held
        self._total -= size

    def clear(self) -> None:
        """Nothing is held."""
        self._by_tenant.clear()
        self._total = 0
