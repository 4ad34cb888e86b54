"""Finds engine instances of which no agent tells anything any more. Called by the periodic tasks.

A planner that is behind its log, as one that has just taken partitions over may be, has not read yet what agents told
meanwhile: all of them seem to be silent, since long ago. So where some seem to be it is marked where the log ends. When
all before that has been taken in, those count that were silent by the time of the mark. Each partition has a mark of
its own: one that is far behind, or has no leader, says nothing of the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.common.kafka import TopicPartition
from services.planner.database import instance_queries
from services.planner.domain.events import Event
from services.planner.pipeline.loop import Planner

AT_ONCE = 500
"""Instances: an event of each, all in one transaction."""
ASK_AGAIN_SECONDS = 10.0
"""After a partition had no answer. The planner waits for each, and does nothing else meanwhile."""
NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class LogMark:
    """Where the partitions of one number of what agents tell ended at a time: all told before is before that."""

    at: datetime
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class SilentInstances:
    """Of one planner."""

    _marks: dict[int, LogMark] = field(default_factory=dict)
    """By number of partition."""
    _unanswered: dict[int, float] = field(default_factory=dict)
    """By number of partition: when it last was asked for in vain."""

    def look(self, planner: Planner) -> None:
        """Have those planned that are silent."""
        ours = planner.consumer.partitions
        self._marks = {number: self._marks[number] for number in ours if number in self._marks}
        self._mark(planner, ours)
        reached = [number for number, mark in self._marks.items() if planner.consumer.has_taken_in(mark.ends)]
        by_time = defaultdict[datetime, list[int]](list)
        for number in reached:
            by_time[self._marks.pop(number).at].append(number)
        for at, marked in by_time.items():
            if events := _due(planner, at, marked):
                planner.look_again(events)

    def _mark(self, planner: Planner, ours: Collection[int]) -> None:
        """Partitions in which some seem to be silent. Ends at the first without an answer: the next look goes on."""
        now, time = planner.clock.now(), planner.clock.time()
        asked_at = {number: self._unanswered.get(number, NEVER) for number in ours if number not in self._marks}
        askable = [number for number, before in asked_at.items() if time - before >= ASK_AGAIN_SECONDS]
        seeming = {event.partition for event in _due(planner, now, askable)}
        for number in sorted(seeming, key=lambda each: (asked_at[each], each)):
            ends = planner.consumer.ends_of_observations(number)
            if not ends:
                self._unanswered[number] = time
                return
            self._marks[number] = LogMark(now, ends)


def _due(planner: Planner, at: datetime, partitions: Collection[int]) -> list[Event]:
    with planner.session.connection() as connection:
        return instance_queries.find_due_health(connection, at, sorted(partitions), AT_ONCE)
