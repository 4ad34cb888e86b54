"""A monotonic clock for tests."""

from __future__ import annotations


class StillClock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds
