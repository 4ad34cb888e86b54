"""Finds engine instances that agents no longer report. Called by the periodic tasks.

A planner that is behind its log has not read the newest reports: to it all instances seem silent. A planner that has
just been assigned partitions is such a planner. So where instances seem silent, it marks the end of the log. Once it
has read everything before the mark, the instances that were silent at the time of the mark count as silent. Each
partition of each engine cluster has a mark of its own, so one that is far behind, or has no leader, does not delay the
others. An instance never counts as silent while its cluster's reports are not assigned to this planner, for example
before it has found a new topic.
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
from services.planner.domain.fleet.reports.orphans import instance_of
from services.planner.pipeline.periodic_planner import PeriodicPlanner

AT_ONCE = 500
"""Instances whose events are planned in one transaction."""
ASK_AGAIN_SECONDS = 10.0
"""The pause after a partition had no answer. The planner waits for each answer, and does nothing else meanwhile."""
NEVER = -math.inf


Place = tuple[int, str]
"""The number of a partition, and the engine cluster whose agents report in it."""


@dataclass(frozen=True, slots=True)
class LogMark:
    """The end of a partition of reports at a time: all reports of before that time are before the end."""

    at: datetime
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class SilentInstances:
    """The marks of one planner."""

    _marks: dict[Place, LogMark] = field(default_factory=dict)
    _unanswered: dict[Place, float] = field(default_factory=dict)
    """For each place, when the brokers last did not answer."""

    def look(self, planner: PeriodicPlanner) -> None:
        """Plan the instances that are silent."""
        consumer = planner.consumer
        ours, marks = consumer.partitions, self._marks.items()
        self._marks = {place: mark for place, mark in marks if place[0] in ours and consumer.are_assigned(mark.ends)}
        self._mark(planner, ours)
        reached = [place for place, mark in self._marks.items() if consumer.has_taken_in(mark.ends)]
        by_time = defaultdict[datetime, set[Place]](set)
        for place in reached:
            by_time[self._marks.pop(place).at].add(place)
        for at, marked in by_time.items():
            due = _due(planner, at, {number for number, _ in marked}, {cluster for _, cluster in marked})
            if events := [event for place in sorted(marked & due.keys()) for event in due[place]]:
                planner.apply_due_events(events)

    def _mark(self, planner: PeriodicPlanner, ours: Collection[int]) -> None:
        """Mark places where instances seem silent. Stops at the first without an answer; the next run goes on."""
        now, time = planner.clock.now(), planner.clock.time()
        seeming = _due(planner, now, ours, planner.consumer.reporting_clusters)
        asked_at = {place: self._unanswered.get(place, NEVER) for place in seeming if place not in self._marks}
        askable = [place for place, before in asked_at.items() if time - before >= ASK_AGAIN_SECONDS]
        for place in sorted(askable, key=lambda each: (asked_at[each], each)):
            sources = planner.consumer.sources_of_observations(*place)
            if not sources:
                continue
            ends = planner.consumer.find_ends(sources)
            if not ends:
                self._unanswered[place] = time
                return
            self._marks[place] = LogMark(now, ends)


def _due(
    planner: PeriodicPlanner, at: datetime, partitions: Collection[int], clusters: Collection[str]
) -> Mapping[Place, list[Event]]:
    """Events of instances that seem silent and report in these partitions and engine clusters."""
    with planner.session.connection() as connection:
        found = instance_queries.find_due_health(connection, at, sorted(partitions), sorted(clusters), AT_ONCE)
    cluster_of = planner.session.find_engine_clusters({instance_of(event) for event in found})
    due = defaultdict[Place, list[Event]](list)
    for event in found:
        due[event.partition, cluster_of[instance_of(event)]].append(event)
    return due
