"""Limits how many messages a consumer gives up: a problem that concerns most tenants is our fault.

If the registry gives wrong answers, every message looks broken, and the consumer would move its topic into the dead
letters. So it remembers whose newest message was given up. If that is too great a share of the recent origins, the next
dead letter is refused: the consumer keeps the message, is not ready, and tries it again, so it recovers once the fault
is fixed. A tenant counts once, whatever it sends, so it cannot stop a consumer that others use.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

import structlog

from services.common.errors import Retry
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

REMEMBERED = 1000
"""How many origins are remembered. The least recent are forgotten."""


class TooManyDeadLetters(Retry):
    """A message must not become a dead letter now."""


class DeadLetterLimit:
    """The limit of one consumer. May be used from several threads.

    An origin identifies the owner of a message: its key, or its tenant if the key says more than that. Handled messages
    must have the same origins as given-up ones.
    """

    def __init__(self, service: str, share: float, minimum: int, rows: str = "") -> None:
        """``share``: of the recent origins; ``minimum``: so many may have a dead letter in any case.

        ``rows``: what is consumed, if a service has several consumers.
        """
        self._service, self._share, self._minimum, self._rows = service, share, minimum, rows
        self._given_up: dict[Hashable, bool] = {}
        self._reason = ""
        self._lock = threading.Lock()

    @property
    def reason(self) -> str:
        """Why the consumer stands still; empty if it does not."""
        return self._reason

    def count_handled(self, origins: Iterable[Hashable]) -> None:
        """A message of each origin was decoded, or had its effect."""
        with self._lock:
            self._remember(origins, given_up=False)
            if self._reason and not self._is_exceeded():
                self._set_reason("")

    def require_room(self, origins: Iterable[Hashable], error: Exception) -> None:
        """Return if a message of each origin may be given up, because of ``error``.

        Raises TooManyDeadLetters if it may not.
        """
        with self._lock:
            self._remember(origins, given_up=True)
            if not self._is_exceeded():
                self._set_reason("")
                return
            count, known = sum(self._given_up.values()), len(self._given_up)
            self._set_reason(
                f"messages of {count} of the last {known} keys would be dead letters; nothing is consumed until that "
                f"is mended: {error}"
            )
            raise TooManyDeadLetters(self._reason) from error

    def _is_exceeded(self) -> bool:
        return sum(self._given_up.values()) > max(self._minimum, self._share * len(self._given_up))

    def _remember(self, origins: Iterable[Hashable], *, given_up: bool) -> None:
        for origin in origins:
            self._given_up.pop(origin, None)
            self._given_up[origin] = given_up
        while len(self._given_up) > REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def _set_reason(self, reason: str) -> None:
        if reason and not self._reason:
            metrics.count_failure(self._service, metrics.Failure.REFUSED, "dead letter")
            log.error("the consumer stands still", reason=reason)
        elif self._reason and not reason:
            log.info("the consumer goes on")
        self._reason = reason
        metrics.CONSUMER_STOPPED.labels(self._service, self._rows).set(1 if reason else 0)
