"""How many changes a tenant may make: a token bucket for each tenant. Pure; used by :mod:`pending_changes`."""

from __future__ import annotations

from dataclasses import dataclass, field

FORGET_FROM = 1024
"""Full buckets are forgotten, so that no more are held than there are busy tenants; below this it is not worth it."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class RateLimiter:
    """``per_second`` changes in the long run, ``burst`` at once. Times are seconds of any clock that only goes on."""

    per_second: float
    burst: int
    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _forget_at: int = FORGET_FROM

    def __len__(self) -> int:
        return len(self._buckets)

    def take_token(self, tenant: str, now: float) -> float:
        """0 if ``tenant`` may make one more change, which is then counted; else the seconds until it may."""
        bucket = self._buckets.get(tenant)
        if bucket is None:
            bucket = self._begin(tenant, now)
        self._fill(bucket, now)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self.per_second

    def _begin(self, tenant: str, now: float) -> _Bucket:
        if len(self._buckets) >= self._forget_at:
            self._forget_full(now)
        bucket = self._buckets[tenant] = _Bucket(self.burst, now)
        return bucket

    def _fill(self, bucket: _Bucket, now: float) -> None:
        bucket.tokens = min(self.burst, bucket.tokens + (now - bucket.filled_at) * self.per_second)
        bucket.filled_at = now

    def _forget_full(self, now: float) -> None:
        for tenant, bucket in list(self._buckets.items()):
            self._fill(bucket, now)
            if bucket.tokens >= self.burst:
                del self._buckets[tenant]
        self._forget_at = max(FORGET_FROM, 2 * len(self._buckets))
