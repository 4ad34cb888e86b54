"""Which engine clusters the brokers are asked for, and what becomes of a batch while they do not answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from services.common.errors import NoPermission, Retry
from services.common.kafka import load_topics
from services.common.messages import AddEngineCluster, DrainEngineCluster, FleetOrder, Order
from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import ClusterTopic, Event
from services.planner.domain.fleet.order_validation import require_label
from services.planner.pipeline import cluster_topics
from services.planner.pipeline.cluster_topics import clusters_to_add, find_cluster_topics
from tests.unit.planner.given import at, changed
from tests.unit.planner.pipeline.test_loop import Memory, planner_with

NORTH = {"north": (ClusterTopic("gitops.engine.north", 6, 6), ClusterTopic("gitops.observations.north", 12, 12))}


def ordered(order: Order, second: int = 10) -> Event:
    return Event(FleetOrder(UUID(int=second), "ada", at(second), order), 0, "")


def added(*clusters: str) -> list[Event]:
    return [ordered(AddEngineCluster(each, "eu")) for each in clusters]


EVENTS: dict[str, tuple[list[Event], set[str]]] = {
    "a cluster": ([changed(1), *added("north")], {"north"}),
    "two, one of them twice": (added("north", "south", "north"), {"north", "south"}),
    "what no cluster is called": (added("", "a.b", "x" * 64, "n\n"), set()),
    "another order of a cluster": ([ordered(DrainEngineCluster("north"))], set()),
    "no order": ([changed(1)], set()),
}


@pytest.mark.parametrize(("events", "asked"), EVENTS.values(), ids=EVENTS)
def test_topics_when_a_batch_is_planned_then_those_of_clusters_that_it_adds_are_asked_for_and_no_others(
    events: list[Event], asked: set[str]
) -> None:
    assert clusters_to_add(events) == asked


def test_topics_when_asked_for_then_it_is_told_how_many_partitions_each_has_and_is_to_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_topics, "described_partitions", lambda _, names: dict.fromkeys(names, 3))
    rows, reports = load_topics(engine_cluster="north")
    found = find_cluster_topics("broker:9092", ["north"])
    expected = ClusterTopic(rows.name, 3, rows.partitions), ClusterTopic(reports.name, 3, reports.partitions)
    assert found == {"north": expected}


def test_topic_when_the_brokers_refuse_the_login_then_the_batch_is_tried_again_and_the_planner_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> dict[str, int]:
        raise NoPermission("Kafka refuses KAFKA_USERNAME and KAFKA_PASSWORD")

    monkeypatch.setattr(cluster_topics, "described_partitions", refuse)
    with pytest.raises(Retry, match="Kafka refuses KAFKA_USERNAME"):
        find_cluster_topics("broker:9092", ["north"])


@pytest.mark.parametrize("cluster", ["a", "eu-2", "0", "x" * MAX_LABEL])
def test_topic_when_a_cluster_may_be_called_so_then_it_is_asked_for(cluster: str) -> None:
    require_label("an engine cluster's id", cluster)
    assert clusters_to_add(added(cluster)) == {cluster}


def test_order_when_the_brokers_do_not_answer_then_it_is_not_decided_until_they_do() -> None:
    answers: list[Mapping[str, Sequence[ClusterTopic]] | Retry] = [Retry("away"), Retry("away"), NORTH]
    asked, planned, session = list[set[str]](), list[Any](), Memory()

    def answer(clusters: Collection[str]) -> Mapping[str, Sequence[ClusterTopic]]:
        asked.append(set(clusters))
        given = answers.pop(0)
        if isinstance(given, Retry):
            raise given
        return given

    def plan(events: Collection[Event], *_: object) -> BatchChanges:
        planned.append([event.cluster_topics for event in events])
        return BatchChanges()

    planner, _, _ = planner_with(session)
    planner.applier.find_cluster_topics, planner.applier._plan = answer, plan
    planner.stopping.wait = lambda _: False  # type: ignore[assignment,method-assign]
    assert planner.retry_until_done(partial(planner.applier.apply_events, added("north"), ()))
    assert (asked, answers, session.abandoned) == ([{"north"}] * 3, [], 2)
    assert planned == [[NORTH["north"]], []]
    assert planner.failures.latest == ""


def test_brokers_when_a_batch_adds_no_cluster_then_they_are_not_asked() -> None:
    asked: list[Collection[str]] = []
    planner, log, _ = planner_with(Memory())
    planner.applier.find_cluster_topics = lambda clusters: asked.append(clusters) or {}  # type: ignore[func-returns-value]
    planner.run()
    assert (len(log.acknowledged), asked) == (1, [])
