"""Follows a topic that is read as a whole: within a moment, and at once for a caller that waits for a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import structlog

from services.common.backoff import Backoff
from services.common.clock import Clock
from services.common.errors import InvalidConfiguration, Retry

log = structlog.get_logger(__name__)

FOLLOW_SECONDS = 0.5
"""Seconds between two reads. Rows of other topics wait for rows of this one."""

RowT = TypeVar("RowT")


class NewsReader(Protocol[RowT]):
    """Reads one topic."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    def read_news(self) -> list[RowT]:
        """The rows since the last call. Raises Retry, InvalidConfiguration if the topic does not exist."""


class TopicFollower(Generic[RowT]):
    """Reads in a thread, one read at a time. Belongs to one event loop."""

    def __init__(
        self,
        reader: NewsReader[RowT],
        take_in: Callable[[list[RowT]], None],
        clock: Clock,
        *,
        matters: Callable[[], bool] = lambda: True,
    ) -> None:
        """``take_in`` is called each time the topic was read to its end, even without new rows.

        ``matters``: whether anybody needs the rows; the topic is read only then.
        """
        self._reader, self._take_in, self._clock, self._matters = reader, take_in, clock, matters
        self._reading = asyncio.Lock()

    async def follow(self) -> None:
        """Follow for ever."""
        while True:
            if self._matters():
                await self.catch_up()
            await self._clock.sleep(FOLLOW_SECONDS)

    async def catch_up(self) -> None:
        """Return once the topic was read to its end. Waits for brokers that do not answer, and for a missing topic."""
        delays = Backoff(limit=5)
        while True:
            try:
                async with self._reading:
                    return self._take_in(await asyncio.to_thread(self._reader.read_news))
            except (Retry, InvalidConfiguration) as error:
                log.warning(
                    "a topic is not to be read; what depends on it waits", topic=self._reader.topic, error=str(error)
                )
                await self._clock.sleep(delays.next_delay())
