"""Finds engine instances of which no agent tells anything any more. Called by the periodic tasks.

A planner that is behind its log, as one that has just taken partitions over may be, has not read yet what agents told
meanwhile: all of them seem to be silent, since long ago. So where some seem to be it is marked where the log ends. When
all before that has been taken in, those count that were silent by the time of the mark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from services.common.kafka import TopicPartition
from services.planner.database import periodic_queries
from services.planner.domain.events import Event
from services.planner.pipeline.loop import Planner

AT_ONCE = 500
"""Instances: an event of each, all in one transaction."""


@dataclass(frozen=True, slots=True)
class LogMark:
    """Where partitions of what agents tell ended at a time: all that was told before it is before that."""

    at: datetime
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class SilentInstances:
    """Of one planner."""

    _mark: LogMark | None = None

    def look(self, planner: Planner) -> None:
        """Have those planned that are silent."""
        if self._mark is None:
            self._mark = _marked(planner)
        if self._mark is None or not planner.consumer.has_taken_in(self._mark.ends):
            return
        mark, self._mark = self._mark, None
        numbers = {source.partition for source in mark.ends} & set(planner.consumer.partitions)
        if events := _due(planner, mark.at, numbers):
            planner.look_again(events)


def _marked(planner: Planner) -> LogMark | None:
    """None if none seems to be silent, or the brokers do not say where their logs end."""
    now = planner.clock.now()
    seeming = _due(planner, now, planner.consumer.partitions)
    ends = planner.consumer.ends_of_observations(each.partition for each in seeming)
    return LogMark(now, ends) if ends else None


def _due(planner: Planner, at: datetime, partitions: Collection[int]) -> list[Event]:
    with planner.session.connection() as connection:
        return periodic_queries.find_due_health(connection, at, sorted(partitions), AT_ONCE)
