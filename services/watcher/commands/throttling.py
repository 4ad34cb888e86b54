"""Limits of a tenant's changes: how many are sent in a second, and how many bytes of waiting changes are held. Pure.

Used by :mod:`pending_changes`. How many statuses are written at a time is a setting of :mod:`delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FORGET_FROM = 1024
"""From how many buckets on full ones are dropped, so that only busy tenants have one."""
MEBIBYTE = 1024 * 1024
TOLERANCE_SECONDS = 1e-6
"""A caller that returns exactly when its token is due finds it, however floats are rounded."""


@dataclass(slots=True)
class RateLimiter:
    """``per_second`` changes in the long run, ``burst`` at once. Times are seconds of a clock that never goes back."""

    per_second: float
    burst: int
    _full_at: dict[str, float] = field(default_factory=dict)
    """When each bucket will be full again. Nothing else needs to be stored."""
    _forget_at: int = FORGET_FROM

    def __len__(self) -> int:
        return len(self._full_at)

    def take_token(self, tenant: str, now: float) -> float | None:
        """Take a token of ``tenant``. Returns None if there was one, else the time at which there will be one."""
        full_at = max(now, self._full_at.get(tenant, now))
        due = full_at - (self.burst - 1) / self.per_second
        if due > now + TOLERANCE_SECONDS:
            return due
        if len(self._full_at) >= self._forget_at:
            self._forget_full(now)
        self._full_at[tenant] = full_at + 1 / self.per_second
        return None

    def _forget_full(self, now: float) -> None:
        self._full_at = {tenant: full_at for tenant, full_at in self._full_at.items() if full_at > now}
        self._forget_at = max(FORGET_FROM, 2 * len(self._full_at))


@dataclass(slots=True)
class ReservedBytes:
    """At most ``of_tenant`` bytes of one tenant, and ``of_all`` of all together."""

    of_tenant: int = MEBIBYTE
    of_all: int = 16 * MEBIBYTE
    _by_tenant: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def __len__(self) -> int:
        return self._total

    def reserve_bytes(self, tenant: str, size: int) -> bool:
        """Reserve ``size`` bytes for ``tenant``. Returns whether there was room."""
        reserved = self._by_tenant.get(tenant, 0) + size
        if reserved > self.of_tenant or self._total + size > self.of_all:
            return False
        self._by_tenant[tenant] = reserved
        self._total += size
        return True

    def release_bytes(self, tenant: str, size: int) -> None:
        """Release ``size`` bytes of ``tenant``."""
        reserved = self._by_tenant.pop(tenant, 0) - size
        if reserved > 0:
            self._by_tenant[tenant] = reserved
        self._total -= size

    def clear(self) -> None:
        """Release everything."""
        self._by_tenant.clear()
        self._total = 0
