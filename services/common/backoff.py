"""Exponential backoff with full jitter, so that many clients of one failure do not return at once."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

FORGET_FROM = 1024
"""Above so many keys, quiet ones are forgotten."""


@dataclass(slots=True)
class Backoff:
    """Delays in seconds: ``first``, doubled up to ``limit``.

    Each is drawn evenly between half of the value and all of it.
    """

    first: float = 0.1
    limit: float = 10.0
    _attempt: int = 0

    @property
    def fresh(self) -> bool:
        """Whether no delay was taken since the start or the last success."""
        return self._attempt == 0

    def next_delay(self) -> float:
        """The next delay to wait."""
        ceiling = min(self.limit, self.first * 2.0 ** min(self._attempt, 32))
        self._attempt += 1
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing

    def reset(self) -> None:
        """Forget past failures after a success."""
        self._attempt = 0


@dataclass(slots=True)
class _Attempts:
    delays: Backoff
    free: int
    last: float


@dataclass(slots=True)
class KeyedBackoff(Generic[KeyT]):
    """A backoff for each key, whose first ``free`` attempts need not wait.

    After ``quiet`` seconds without an attempt the key starts anew. Times are seconds of any clock that does not go
    back.
    """

    limit: float
    free: int = 0
    quiet: float = float("inf")
    _attempts: dict[KeyT, _Attempts] = field(default_factory=dict)

    def next_delay(self, key: KeyT, now: float = 0.0) -> float:
        """How many seconds ``key`` waits before its next attempt."""
        attempts = self._attempts.get(key)
        if attempts is None or now - attempts.last > self.quiet:
            self._forget_quiet_keys(now)
            attempts = self._attempts[key] = _Attempts(Backoff(limit=self.limit), self.free, now)
        attempts.last = now
        if attempts.free:
            attempts.free -= 1
            return 0.0
        return attempts.delays.next_delay()

    def forget_key(self, key: KeyT) -> None:
        """``key`` has succeeded: its next failure is its first."""
        self._attempts.pop(key, None)

    def clear(self) -> None:
        """Forget all keys."""
        self._attempts.clear()

    def _forget_quiet_keys(self, now: float) -> None:
        if len(self._attempts) >= FORGET_FROM:
            self._attempts = {key: each for key, each in self._attempts.items() if now - each.last <= self.quiet}
