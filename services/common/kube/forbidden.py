"""How long a refusal for want of rights is not believed: an API server that has just started knows no rights yet."""

from __future__ import annotations

import time
from dataclasses import dataclass

from services.common.kube.errors import Refused

FORBIDDEN = 403
FORBIDDEN_SECONDS = 30.0


@dataclass(slots=True)
class Forbidden:
    """For how long we have been told that we may not."""

    limit_seconds: float = FORBIDDEN_SECONDS
    since: float | None = None

    def bear(self, error: Refused) -> None:
        """Raises ``error`` unless it is one that may pass."""
        now = time.monotonic()
        self.since = self.since if self.since is not None else now
        if error.status != FORBIDDEN or now - self.since >= self.limit_seconds:
            raise error

    def reset(self) -> None:
        """We may, or nobody said anything about it."""
        self.since = None
