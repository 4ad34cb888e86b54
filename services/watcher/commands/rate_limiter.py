"""How many changes a tenant may make: a token bucket for each tenant. Pure; used by :mod:`pending_changes`."""

from __future__ import annotations

from dataclasses import dataclass, field

FORGET_FROM = 1024
"""Full buckets are forgotten, so that no more are held than there are busy tenants; below this it is not worth it."""
TOLERANCE_SECONDS = 1e-6
"""Whoever comes back at the very moment it was given finds a token, however floats are rounded."""


@dataclass(slots=True)
class RateLimiter:
    """``per_second`` changes in the long run, ``burst`` at once. Times are seconds of any clock that only goes on."""

    per_second: float
    burst: int
    _full_at: dict[str, float] = field(default_factory=dict)
    """When each bucket will be full again: all that has to be known of it."""
    _forget_at: int = FORGET_FROM

    def __len__(self) -> int:
        return len(self._full_at)

    def take_token(self, tenant: str, now: float) -> float | None:
        """None if ``tenant`` may make one more change, which is then counted; else the moment at which it may."""
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
