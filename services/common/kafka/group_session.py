"""Until when a member of a consumer group knows that it is one: what it may change depends on that.

The broker gives the partitions of a member away once it has not heard of it for the session timeout, which a process
that was stopped or cut off does not notice. What the broker has answered it had heard of, no earlier than it was sent.
So for the session timeout from then on nobody else has the partitions, and no longer. Measured on our own monotonic
clock: only durations are compared. Between the member's question and the broker's clock lies the way there, which is
the margin for clocks that do not run alike.

Between the check and the change remains a gap: a process that is stopped just there sends what it has checked when it
goes on. What bounds that is told in docs/design/fencing.md.
"""

from __future__ import annotations

from services.common.clock import Clock, SystemClock
from services.common.errors import Retry


class GroupSession:
    """One member's. May be used from several threads."""

    def __init__(self, timeout_seconds: float, clock: Clock | None = None) -> None:
        """``timeout_seconds``: the session timeout that the broker was told."""
        self._timeout_seconds, self.clock = timeout_seconds, clock or SystemClock()
        self._until = self.clock.time()

    def confirm_membership(self, asked_at: float) -> None:
        """The broker has answered, as to a member, what was sent at ``asked_at`` on the monotonic clock."""
        self._until = max(self._until, asked_at + self._timeout_seconds)

    @property
    def is_confirmed(self) -> bool:
        """Whether nobody else can have our partitions yet."""
        return self.clock.time() < self._until

    def require_membership(self) -> float:
        """To be called right before a change, which has to be sent within the seconds that this returns.

        Raises Retry if another member may have our partitions by now.
        """
        left = self._until - self.clock.time()
        if left <= 0:
            raise Retry("nothing is changed until the broker confirms that we are a member of the group")
        return left
