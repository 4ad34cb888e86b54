"""Takes in what is new in a topic that is read as a whole: within a moment, and at once for who waits for a row."""

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
"""Between two questions for news: rows of other topics wait for what is in this one."""

RowT = TypeVar("RowT")


class NewsReader(Protocol[RowT]):
    """Of one topic."""

    @property
    def topic(self) -> str:
        """Its name."""

    def read_news(self) -> list[RowT]:
        """Every row that is new. Raises Retry, InvalidConfiguration if there is no such topic."""


class TopicFollower(Generic[RowT]):
    """Reads in a thread, one at a time; belongs to one event loop."""

    def __init__(
        self,
        reader: NewsReader[RowT],
        take_in: Callable[[list[RowT]], None],
        clock: Clock,
        *,
        matters: Callable[[], bool] = lambda: True,
    ) -> None:
        """``take_in`` is called each time that the topic was read to its end, also if nothing is new.

        ``matters``: whether anybody needs to know; nobody reads it while that is not so.
        """
        self._reader, self._take_in, self._clock, self._matters = reader, take_in, clock, matters
        self._reading = asyncio.Lock()

    async def follow(self) -> None:
        """For ever."""
        while True:
            if self._matters():
                await self.catch_up()
            await self._clock.sleep(FOLLOW_SECONDS)

    async def catch_up(self) -> None:
        """Return once the topic was read to its end.

        Brokers that do not answer, and a topic that is missing, are waited for.
        """
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
