"""Unacknowledged messages, one for each object, and the observations that they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent.objects.managed_kinds import ObjectKey
from services.agent.observe.observation_sink import ObservationSink
from services.common.errors import Retry
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent

Acknowledge = Callable[[], None]
"""Acknowledges one message of gitops.engine: its effect is certain, or a newer message took its place."""


@dataclass(slots=True)
class _Delivery:
    """Observations that acknowledge one message together."""

    missing: int
    lost: bool = False


class PendingAcks:
    """The messages of one instance's rows that are not acknowledged yet, one for each object."""

    def __init__(self, reports: ObservationSink, again: Callable[[ObjectKey], None]) -> None:
        """``again``: an observation was lost; what is so will be found so again, and reported again."""
        self._reports, self._again = reports, again
        self._pending: dict[ObjectKey, Acknowledge] = {}
        self._reported: dict[ObjectKey, Acknowledge] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._pending

    def add_message(self, key: ObjectKey, acknowledge: Acknowledge) -> None:
        """A newer message of ``key``: the older one is acknowledged."""
        older = self._pending.get(key)
        self._pending[key] = acknowledge
        if older is not None:
            older()

    def unreported(self, key: ObjectKey) -> Acknowledge | None:
        """Of the message that still waits for an observation; one that is on its way is not sent again."""
        acknowledge = self._pending.get(key)
        return None if acknowledge is self._reported.get(key) else acknowledge

    def send_observations(
        self,
        key: ObjectKey,
        row: EngineResource,
        acknowledge: Acknowledge | None,
        events: list[ObservationEvent],
        lost: Callable[[], None],
    ) -> None:
        """Send ``events``; acknowledge when all have arrived, call ``lost`` if one has not.

        Raises Retry if they cannot even be queued.
        """
        delivery = _Delivery(len(events))

        def delivered(arrived: bool) -> None:
            delivery.missing -= 1
            delivery.lost |= not arrived
            if delivery.missing == 0:
                self._end_delivery(key, acknowledge, delivery.lost, lost)

        try:
            for event in events:
                self._reports.send_observation(row, event, delivered)
        except Retry:
            lost()
            raise
        if acknowledge is not None and events:
            self._reported[key] = acknowledge
        elif acknowledge is not None:
            self._acknowledge(key, acknowledge)

    def acknowledge_object(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more: its message is acknowledged."""
        acknowledge = self._pending.pop(key, None)
        if acknowledge is not None:
            acknowledge()

    def clear(self) -> None:
        """The partition was revoked: its next owner is sent again what is not acknowledged."""
        self._pending.clear()
        self._reported.clear()

    def _end_delivery(
        self, key: ObjectKey, acknowledge: Acknowledge | None, was_lost: bool, lost: Callable[[], None]
    ) -> None:
        if self._reported.get(key) is acknowledge:
            self._reported.pop(key, None)
        if was_lost:
            lost()
            self._again(key)
        elif acknowledge is not None:
            self._acknowledge(key, acknowledge)

    def _acknowledge(self, key: ObjectKey, acknowledge: Acknowledge) -> None:
        acknowledge()
        if self._pending.get(key) is acknowledge:
            del self._pending[key]
