"""Epochs: the numbers that order complete lists. A new epoch is greater than the timestamp of the newest command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kafka import Brokers, client_properties, count_partitions
from services.common.startup import one_line
from services.common.times import rfc3339

log = structlog.get_logger(__name__)

REQUEST_SECONDS = 5.0
CLOCKS_DIFFER = timedelta(seconds=10)
"""How much our clock, the API server's and the brokers' differ at most, as a rule."""


class Epochs:
    """Milliseconds since 1970, but always greater than the last epoch, even if the clock was set back.

    ``floor`` carries the rule across restarts: no earlier epoch is greater. A process that begins to lead raises it.
    """

    def __init__(self, floor: int = 0) -> None:
        self._last = floor
        self.floor = floor
        """When the newest command was sent by an earlier leader, 0 if there is none."""

    def next_epoch(self, now_ms: int) -> int:
        """The epoch of a list that begins at ``now_ms``."""
        self._last = max(now_ms, self._last + 1)
        return self._last

    def raise_to(self, floor: int) -> None:
        """Continue above ``floor``: another process may have led before, and used no greater epoch."""
        self._last, self.floor = max(self._last, floor), floor


@dataclass(slots=True)
class ListProgress:
    """How far the lists of one kind have come."""

    epoch: int = 0
    """Epoch of the newest list that was begun."""
    complete_epoch: int = 0
    """Epoch of the newest list that was completed and acknowledged, 0 if there is none since this process leads."""
    followed_until: int = 0
    """When the last change was seen, or the last list was complete, in milliseconds since 1970."""

    @property
    def is_complete(self) -> bool:
        """Whether the newest list was completed and acknowledged."""
        return self.complete_epoch > 0 and self.complete_epoch == self.epoch

    def begin_epoch(self, epochs: Epochs, now_ms: int) -> str:
        """Begin a list. Returns since when changes count as news, as Kubernetes writes times; empty if none does."""
        self.epoch = epochs.next_epoch(now_ms)
        known_until = max(epochs.floor, self.followed_until)
        since = datetime.fromtimestamp(known_until / 1000, UTC) - CLOCKS_DIFFER
        return rfc3339(since) if known_until else ""


def newest_timestamp(brokers: Brokers, topic: str) -> int:
    """Greatest timestamp of any message in ``topic``, milliseconds since 1970; 0 if it is empty.

    Blocks. Raises Retry while the brokers do not answer.
    """
    partitions = [TopicPartition(topic, number) for number in range(count_partitions(brokers, [topic])[topic])]
    request = {partition: OffsetSpec.max_timestamp() for partition in partitions}  # type: ignore[no-untyped-call]
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
    try:
        answers = admin.list_offsets(request, request_timeout=REQUEST_SECONDS)
        timestamps: list[int] = [answer.result(REQUEST_SECONDS).timestamp for answer in answers.values()]
    except (KafkaException, TimeoutError) as error:
        raise Retry(f"newest command: {error}") from error
    return max(0, *timestamps)


async def until_answered(ask: Callable[[], Awaitable[int]], what: str) -> int:
    """Kafka's answer to ``ask``. Asks again until Kafka answers: without an answer no command is lost."""
    delays = Backoff()
    while True:
        try:
            return await ask()
        except Retry as error:
            log.warning("Kafka does not answer", asked=what, error=one_line(error))
            await asyncio.sleep(delays.next_delay())
