"""Until when a member of a consumer group is sure of its membership, on which depends what it may change.

The broker reassigns the partitions of a member from which it has heard nothing for the session timeout. A process that
was stopped or cut off does not notice that. If the broker has answered a request, it has heard of us, no earlier than
the request was sent. So until the session timeout after that time, nobody else has our partitions. Only durations on
our own monotonic clock are compared. The request's way to the broker is the margin for clocks with different speed.

A gap remains between the check and the change: a process that is stopped just there makes its change when it continues.
docs/design/fencing.md says what bounds that.
"""

from __future__ import annotations

from services.common.clock import Clock, SystemClock
from services.common.errors import Retry


class GroupSession:
    """The session of one member. May be used from several threads."""

    def __init__(self, timeout_seconds: float, clock: Clock | None = None) -> None:
        """``timeout_seconds``: the session timeout in the member's properties."""
        self._timeout_seconds, self.clock = timeout_seconds, clock or SystemClock()
        self._until = self.clock.time()

    def confirm_membership(self, asked_at: float) -> None:
        """The broker has answered a member's request, which was sent at ``asked_at`` (monotonic seconds)."""
        self._until = max(self._until, asked_at + self._timeout_seconds)

    @property
    def is_confirmed(self) -> bool:
        """Whether nobody else can have our partitions yet."""
        return self.clock.time() < self._until

    def require_membership(self) -> float:
        """Require membership right before a change, which must be sent within the returned number of seconds.

        Raises Retry if another member may have our partitions by now.
        """
        left = self._until - self.clock.time()
        if left <= 0:
            raise Retry("nothing is changed until the broker confirms that we are a member of the group")
        return left
