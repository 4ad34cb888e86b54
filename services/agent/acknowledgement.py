"""Acknowledges events to faust in the order of their offsets, however their effects end.

faust commits past a message that is not acknowledged if the one after it is (``Consumer._new_offset`` tolerates a gap
of one, and any gap while nothing was committed yet). So it is shown acknowledgements in order only: an event is
acknowledged when it and all before it in its partition are done.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol


class Event(Protocol):
    """A faust event, as far as it is used here."""

    message: Any

    def ack(self) -> bool:
        """Mark its offset as safe to commit."""


class Ticket:
    """The duty to acknowledge one event once its effect is certain."""

    __slots__ = ("_done", "_event", "_ledger")

    def __init__(self, ledger: PartitionLedger, event: Event) -> None:
        self._ledger, self._event, self._done = ledger, event, False

    @property
    def is_done(self) -> bool:
        """Its effect is certain, or a newer event took its place."""
        return self._done

    def done(self) -> None:
        """The effect is certain; a second call changes nothing."""
        if not self._done:
            self._done = True
            # While older events are open only the offset is needed: an instance that is parked for hours must not
            # keep the content of everything that came after.
            self._event.message.key = self._event.message.value = None
            self._ledger.settle()

    def acknowledge(self) -> None:
        """Called by the ledger, in order."""
        self._event.ack()


class PartitionLedger:
    """Open events of one partition in the order of their offsets, from one assignment to its revocation."""

    def __init__(self) -> None:
        self._open: deque[Ticket] = deque()
        self._closed = False
        self.next_offset = 0
        """Offset after the last event taken in; 0 before the first."""

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, event: Event) -> Ticket:
        """Take in the next event of the partition."""
        ticket = Ticket(self, event)
        self._open.append(ticket)
        self.next_offset = event.message.offset + 1
        return ticket

    def settle(self) -> None:
        """Acknowledge from the front all that is done."""
        while self._open and self._open[0].is_done and not self._closed:
            self._open.popleft().acknowledge()

    def close(self) -> None:
        """The partition was revoked: acknowledge nothing more; who owns it next is sent what is open again."""
        self._closed = True
        self._open.clear()
