"""No agent counts as silent whose reports are in the log, and have only not been read yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from services.common.kafka import COMMANDS, OBSERVATIONS, OffsetTracker, TopicPartition, observations_topic
from services.planner.database import instance_queries
from services.planner.domain.events import Event, HealthDue
from services.planner.pipeline.batch_consumer import BatchConsumer
from services.planner.pipeline.silent_instances import SilentInstances
from tests.unit.planner.given import at

REPORTS, SOUTH = observations_topic("north"), observations_topic("south")


class Log:
    """Where the consumer is: observations, of which so many are written and taken in."""

    sources_of_observations = BatchConsumer.sources_of_observations
    reporting_clusters = BatchConsumer.reporting_clusters
    are_assigned = BatchConsumer.are_assigned
    find_ends = BatchConsumer.find_ends
    has_taken_in = BatchConsumer.has_taken_in

    def __init__(self) -> None:
        self.offsets, self._consumer = OffsetTracker(), self
        self.ends: dict[int, int | None] = {0: 0, 1: 0}
        self.asked: list[int] = []
        self.assign(0, 1)

    def assign(self, *partitions: int) -> None:
        self.offsets.revoke_partitions(self.offsets.partitions)
        sources = [TopicPartition(topic, each) for topic in (COMMANDS, REPORTS) for each in partitions]
        self.offsets.assign_partitions(dict.fromkeys(sources, 0))

    @property
    def partitions(self) -> list[int]:
        return [source.partition for source in self.offsets.partitions if source.topic == COMMANDS]

    def end_offset(self, source: TopicPartition) -> int | None:
        self.asked.append(source.partition)
        return self.ends[source.partition]

    def take_in(self, count: int, partition: int = 0, topic: str = REPORTS) -> None:
        source = TopicPartition(topic, partition)
        for _ in range(count):
            tracked = self.offsets.track_offset(source, self.offsets.next_offset(source) or 0)
            assert tracked is not None
            self.offsets.acknowledge_offset(tracked)


class Watch:
    """Looks for silent instances: each has a partition, and a second from which on it is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **due: tuple[int, int]) -> None:
        self.log, self.due, self.second = Log(), due, 0
        self.silent: list[str] = []
        self.clusters = defaultdict[str, str](lambda: "north")
        self._silent_instances = SilentInstances()
        self._planner: Any = SimpleNamespace(
            consumer=self.log,
            clock=SimpleNamespace(now=lambda: at(self.second), time=lambda: float(self.second)),
            session=SimpleNamespace(
                connection=lambda: nullcontext(None),
                find_engine_clusters=lambda instances: {each: self.clusters[each] for each in instances},
            ),
            apply_due_events=self._look_again,
        )
        monkeypatch.setattr(instance_queries, "find_due_health", self._find)

    def look(self, second: int) -> list[str]:
        """Which were found, and have been silent by then."""
        self.second, self.silent = second, []
        self._silent_instances.look(self._planner)
        return self.silent

    def _find(
        self, _: Any, now: datetime, partitions: Sequence[int], clusters: Sequence[str], limit: int
    ) -> list[Event]:
        due = {name: at_ for name, (at_, due) in self.due.items() if at_ in partitions and at(due) <= now}
        found = {name: at_ for name, at_ in [*due.items()] if self.clusters[name] in clusters}
        assert len(found) <= limit
        return [Event(HealthDue(name), partition, "") for name, partition in found.items()]

    def _look_again(self, events: list[Event]) -> None:
        self.silent += [event.message.engine_instance_id for event in events if isinstance(event.message, HealthDue)]


def test_instance_when_all_that_was_told_has_been_read_then_it_is_silent_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100))
    watch.log.ends[0] = 3
    watch.log.take_in(3)
    assert (watch.look(99), watch.look(100)) == ([], ["one"])


def test_instances_when_planners_are_behind_the_log_then_only_those_are_silent_of_which_it_has_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(0, 100))
    watch.log.ends[0] = 3
    assert watch.look(500) == []
    watch.log.take_in(2)
    assert watch.look(501) == []
    watch.log.take_in(1)
    watch.due["one"] = (0, 680)  # its agent has told something
    assert watch.look(502) == ["two"]


def test_instances_when_one_partition_is_far_behind_then_those_of_the_others_are_silent_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(1, 100), three=(1, 502))
    watch.log.ends[0] = 3
    assert watch.look(500) == ["two"]
    del watch.due["two"]
    watch.log.take_in(2)
    assert watch.look(502) == ["three"]
    del watch.due["three"]
    watch.due["four"] = (0, 501)
    watch.log.take_in(1)
    assert watch.look(503) == ["one"]  # as of its own mark: that of 500


def test_instance_when_it_seems_silent_only_after_the_mark_then_it_is_looked_at_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(0, 400))
    watch.log.ends[0] = 1
    assert watch.look(300) == []
    watch.log.take_in(1)
    watch.log.ends[0] = 2  # of what was told since then nothing has been read yet
    assert watch.look(500) == ["one"]
    del watch.due["one"]
    assert watch.look(501) == []
    watch.log.take_in(1)
    assert watch.look(502) == ["two"]


def test_instances_when_a_partition_was_another_planners_meanwhile_then_it_is_marked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(1, 501))
    watch.log.ends[0] = 1
    assert watch.look(500) == []
    watch.log.assign(1)
    assert watch.look(501) == ["two"]
    del watch.due["two"]
    watch.log.assign(0, 1)
    watch.log.ends[0] = 2
    assert watch.look(502) == []
    watch.log.take_in(1)
    assert watch.look(503) == []
    watch.log.take_in(1)
    assert watch.look(504) == ["one"]


def test_instances_when_the_brokers_do_not_say_where_a_log_ends_then_they_are_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100))
    watch.log.ends[0] = None
    assert [watch.look(second) for second in range(500, 510)] == [[]] * 10
    assert watch.log.asked == [0]
    watch.log.ends[0] = 0
    assert watch.look(510) == ["one"]


def test_instances_when_a_partition_has_no_leader_then_those_of_the_others_are_silent_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(1, 100))
    watch.log.ends[0] = None
    assert [watch.look(500), watch.look(501)] == [[], ["two"]]


def test_instances_when_many_partitions_have_no_leader_then_a_look_waits_for_one_answer_and_all_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, **{f"of-{number}": (number, 100) for number in range(13)})
    watch.log.assign(*range(13))
    watch.log.ends = dict.fromkeys(range(12)) | {12: 0}
    found = [watch.look(second) for second in range(500, 513)]
    assert found == [[]] * 12 + [["of-12"]]
    assert watch.log.asked[:12] == [*range(12)]
    del watch.due["of-12"]
    watch.look(513)
    assert watch.log.asked[12:] == [12, 0, 1]


def test_instance_when_reports_of_another_engine_cluster_have_not_been_read_yet_then_it_is_silent_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(0, 100))
    watch.clusters["two"] = "south"
    watch.log.offsets.assign_partitions({TopicPartition(SOUTH, 0): 0})
    watch.log.ends[0] = 1
    watch.log.take_in(1)
    assert watch.look(500) == ["one"]
    del watch.due["one"]
    watch.log.take_in(1, topic=SOUTH)
    assert watch.look(501) == ["two"]


def test_instance_when_the_reports_of_its_engine_cluster_are_not_assigned_then_it_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100), two=(0, 100))
    watch.clusters["two"] = "south"
    watch.log.offsets.assign_partitions({TopicPartition(OBSERVATIONS, 0): 0})
    assert watch.look(500) == ["one"]
    del watch.due["one"]
    watch.log.offsets.assign_partitions({TopicPartition(SOUTH, 0): 0})
    assert watch.look(510) == ["two"]


def test_instance_when_what_former_releases_told_has_not_been_read_yet_then_it_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100))
    watch.log.offsets.assign_partitions({TopicPartition(OBSERVATIONS, 0): 0})
    watch.log.ends[0] = 1
    watch.log.take_in(1)
    assert watch.look(500) == []
    watch.log.take_in(1, topic=OBSERVATIONS)
    assert watch.look(501) == ["one"]


def test_instance_when_its_clusters_reports_were_assigned_to_another_planner_meanwhile_then_it_is_marked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, one=(0, 100))
    watch.log.ends[0] = 1
    assert watch.look(500) == []
    watch.log.offsets.revoke_partitions([TopicPartition(REPORTS, 0)])
    assert watch.look(501) == []
    watch.log.offsets.assign_partitions({TopicPartition(REPORTS, 0): 0})
    assert watch.look(502) == []
    watch.log.take_in(1)
    assert watch.look(503) == ["one"]


def test_instances_when_those_of_other_clusters_are_not_assigned_then_the_others_are_found_and_in_a_fixed_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch, **{f"of-{cluster}": (0, 100) for cluster in "fbdace"}, lost=(0, 1))
    watch.clusters |= {f"of-{cluster}": cluster for cluster in "fbdace"} | {"lost": "unknown"}
    watch.log.offsets.assign_partitions({TopicPartition(observations_topic(each), 0): 0 for each in "fbdace"})
    assert watch.look(500) == [f"of-{cluster}" for cluster in "abcdef"]
