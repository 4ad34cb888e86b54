"""A sign of life: whoever waits for something by trying again and again shows that it still does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Pulse:
    """When the planner last did or tried something, on the monotonic clock."""

    at: float = field(default_factory=time.monotonic)

    def beat(self) -> None:
        """Something was done or tried."""
        self.at = time.monotonic()

    def silent_seconds(self) -> float:
        """How long nothing was."""
        return time.monotonic() - self.at
