"""Epochs: the numbers that order complete lists."""

from __future__ import annotations


class Epochs:
    """Milliseconds since 1970, but always greater than the last, also when the clock was set back.

    ``floor`` carries the rule across restarts: no epoch so far exceeds it.
    """

    def __init__(self, floor: int) -> None:
        self._last = floor

    def next(self, now_ms: int) -> int:
        """The epoch of a list that begins at ``now_ms``."""
        self._last = max(now_ms, self._last + 1)
        return self._last

    def raise_to(self, floor: int) -> None:
        """Another process has led since: no epoch so far exceeds ``floor``."""
        self._last = max(self._last, floor)
