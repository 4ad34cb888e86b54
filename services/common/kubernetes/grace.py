"""A grace period for 403: an API server that has just started may not have loaded its RBAC rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.common.clock import Clock, SystemClock
from services.common.kubernetes.errors import Rejected

GRACE_SECONDS = 30.0


@dataclass(slots=True)
class ForbiddenGrace:
    """Of requests of one sort; it begins with the first that is forbidden, and ends when one is not."""

    seconds: float = GRACE_SECONDS
    clock: Clock = field(default_factory=SystemClock)
    _since: float | None = None

    def tolerate_rejection(self, error: Rejected) -> None:
        """Return if ``error`` may pass by itself: try again. Raises it otherwise."""
        now = self.clock.time()
        self._since = self._since if self._since is not None else now
        if not error.is_forbidden or now - self._since >= self.seconds:
            raise error

    def reset(self) -> None:
        """A request was not forbidden."""
        self._since = None
