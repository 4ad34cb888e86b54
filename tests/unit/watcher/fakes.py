"""Kafka as far as the producer and the reporter see it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from services.common.errors import Retry
from services.common.kafka.publisher import PARTITION_BY_KEY, QueueFull
from services.common.messages import Command


@dataclass
class FakePublisher:
    """Acknowledges at once unless told otherwise."""

    sent: list[tuple[str, bytes | None, Any, int]] = field(default_factory=list)
    headers: list[Mapping[str, str | bytes]] = field(default_factory=list)
    outcomes: list[Future[int]] = field(default_factory=list)
    holding: bool = False
    """Acknowledge nothing: the broker is away."""
    refusing: list[Retry] = field(default_factory=list)
    """Raised by the next sends, one each."""

    def send_message(
        self,
        topic: str,
        key: bytes | None,
        value: Any,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int = PARTITION_BY_KEY,
    ) -> Future[int]:
        if self.refusing:
            raise self.refusing.pop(0)
        outcome: Future[int] = Future()
        self.sent.append((topic, key, getattr(value, "message", value), partition))
        self.headers.append(headers or {})
        self.outcomes.append(outcome)
        if not self.holding:
            outcome.set_result(len(self.outcomes))
        return outcome

    def acknowledge(self) -> None:
        """The broker is back."""
        self.holding = False
        for outcome in self.outcomes:
            if not outcome.done():
                outcome.set_result(0)

    def lose(self, number: int) -> None:
        """Give up delivering one message."""
        self.outcomes[number].set_exception(Retry("not delivered"))

    @property
    def commands(self) -> list[Command]:
        return [value for _, _, value, _ in self.sent]

    @property
    def events(self) -> list[Any]:
        return [command.event for command in self.commands]


class Encoded(bytes):
    """As long as a message is, and known to be that message."""

    message: Any


class PlainCodec:
    """Leaves messages as they are, so that tests can look at them."""

    def encode_message(self, message: Any) -> Encoded:
        encoded = Encoded(repr(message).encode())
        encoded.message = message
        return encoded


FULL = QueueFull("queue is full")
