"""Exponential backoff with full jitter, so that many clients of one failure do not return at once."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Delays in seconds: ``first``, doubling up to ``limit``, each drawn evenly between half and the whole of it."""

    first: float = 0.1
    limit: float = 10.0
    _attempt: int = 0

    @property
    def fresh(self) -> bool:
        """No delay was taken since the start or the last success."""
        return self._attempt == 0

    def next(self) -> float:
        """The next delay to wait."""
        ceiling = min(self.limit, self.first * 2.0 ** min(self._attempt, 32))
        self._attempt += 1
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing

    def reset(self) -> None:
        """Forget past failures after a success."""
        self._attempt = 0
