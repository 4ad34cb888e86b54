"""Unacknowledged messages, one for each object, and the observations that they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent.objects.managed_kinds import ObjectKey
from services.agent.observe.observation_sink import ObservationSink
from services.common.errors import Retry
from services.common.kafka import LatestMessages
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent

Acknowledge = Callable[[], None]
"""Acknowledges a compiled row's message: its effect is certain, or a newer message replaces it."""


@dataclass(slots=True)
class _Delivery:
    """The observations that acknowledge one message together."""

    missing: int
    lost: bool = False


class PendingAcks:
    """The unacknowledged messages of one instance's rows, one for each object."""

    def __init__(self, reports: ObservationSink, again: Callable[[ObjectKey], None]) -> None:
        """``again`` is called for the object of a lost observation, so that its state is reported again."""
        self._reports, self._again = reports, again
        self._messages: LatestMessages[ObjectKey, Acknowledge] = LatestMessages(lambda acknowledge: acknowledge())
        """A message is in progress while its observations are being delivered."""

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._messages

    def add_message(self, key: ObjectKey, acknowledge: Acknowledge) -> None:
        """Add a newer message of ``key``."""
        self._messages.add_message(key, acknowledge)

    def unreported(self, key: ObjectKey) -> Acknowledge | None:
        """The message of ``key``, if no observation for it is being delivered."""
        return self._messages.waiting_message(key)

    def send_observations(
        self,
        key: ObjectKey,
        row: EngineResource,
        acknowledge: Acknowledge | None,
        events: list[ObservationEvent],
        lost: Callable[[], None],
    ) -> None:
        """Send ``events``; acknowledge when all are delivered, call ``lost`` if one is not.

        Raises Retry if they cannot be queued.
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
        if acknowledge is None or self._messages.waiting_message(key) is not acknowledge:
            return
        self._messages.start_message(key)
        if not events:
            self._messages.acknowledge_message(key, acknowledge)

    def acknowledge_object(self, key: ObjectKey) -> None:
        """Acknowledge the message of ``key``, of which nothing is desired any more."""
        self._messages.acknowledge_key(key)

    def clear(self) -> None:
        """Forget all messages: the partition was revoked, and its next owner gets the unacknowledged ones."""
        self._messages.clear()

    def _end_delivery(
        self, key: ObjectKey, acknowledge: Acknowledge | None, was_lost: bool, lost: Callable[[], None]
    ) -> None:
        if was_lost:
            lost()
            if acknowledge is not None:
                self._messages.retry_message(key, acknowledge)
            self._again(key)
        elif acknowledge is not None:
            self._messages.acknowledge_message(key, acknowledge)
