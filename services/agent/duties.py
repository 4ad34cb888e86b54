"""Which event of which object still waits for its effect, and the observations that end the waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent.acknowledgement import Ticket
from services.agent.objects import ObjectKey
from services.agent.reports import Reports
from services.common.errors import Retry
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent


@dataclass(slots=True)
class _Parcel:
    """Observations that end one event together."""

    missing: int
    lost: bool = False


class Duties:
    """Events of one instance's rows that are not acknowledged yet."""

    def __init__(self, reports: Reports, again: Callable[[ObjectKey], None]) -> None:
        """``again``: an observation was lost; what is so will be found so again, and reported again."""
        self._reports, self._again = reports, again
        self._tickets: dict[ObjectKey, Ticket] = {}
        self._reported: dict[ObjectKey, Ticket] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._tickets

    def take(self, key: ObjectKey, ticket: Ticket) -> None:
        """A newer event of ``key``: the older one is done thereby."""
        older = self._tickets.get(key)
        self._tickets[key] = ticket
        if older is not None:
            older.done()

    def unreported(self, key: ObjectKey) -> Ticket | None:
        """The event that still waits for an observation; one that is on its way is not sent again."""
        ticket = self._tickets.get(key)
        return None if ticket is self._reported.get(key) else ticket

    def report(
        self,
        key: ObjectKey,
        row: EngineResource,
        ticket: Ticket | None,
        events: list[ObservationEvent],
        lost: Callable[[], None],
    ) -> None:
        """Send ``events``; ``ticket`` is acknowledged when all have arrived, ``lost`` called if one has not.

        Raises Retry if they cannot even be queued.
        """
        parcel = _Parcel(len(events))

        def delivered(arrived: bool) -> None:
            parcel.missing -= 1
            parcel.lost |= not arrived
            if parcel.missing == 0:
                self._settled(key, ticket, parcel.lost, lost)

        try:
            for event in events:
                self._reports.send(row, event, delivered)
        except Retry:
            lost()
            raise
        if ticket is not None and events:
            self._reported[key] = ticket
        elif ticket is not None:
            self._fulfil(key, ticket)

    def drop(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more: its event is done."""
        ticket = self._tickets.pop(key, None)
        if ticket is not None:
            ticket.done()

    def clear(self) -> None:
        """The partition was revoked: what is open is sent again to whoever owns it."""
        self._tickets.clear()
        self._reported.clear()

    def _settled(self, key: ObjectKey, ticket: Ticket | None, was_lost: bool, lost: Callable[[], None]) -> None:
        if self._reported.get(key) is ticket:
            self._reported.pop(key, None)
        if was_lost:
            lost()
            self._again(key)
        elif ticket is not None:
            self._fulfil(key, ticket)

    def _fulfil(self, key: ObjectKey, ticket: Ticket) -> None:
        ticket.done()
        if self._tickets.get(key) is ticket:
            del self._tickets[key]
