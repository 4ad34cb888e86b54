"""What agents report of instances of other engine clusters has no effect, and takes no true report's place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from services.common.kafka import OBSERVATIONS, observations_topic
from services.common.messages import Observation, StatusReported
from services.planner.domain.events import Event
from services.planner.pipeline.decode import decode_event
from services.planner.pipeline.report_origins import without_foreign_reports
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import Applied, changed, observed
from tests.unit.planner.pipeline.test_decoded_reports import Known

CLUSTERS = {"here": "north", "there": "south"}


def find(instances: Collection[str]) -> Mapping[str, str]:
    return {each: CLUSTERS[each] for each in instances if each in CLUSTERS}


def report(instance: str, origin: str | None, second: int = 1) -> Event:
    return replace(observed(second, Applied("uid-1"), instance=instance), reporting_cluster=origin)


REPORTS = {
    "of its own cluster": ("here", "north", True),
    "of another": ("here", "south", False),
    "of an instance that there is not": ("nowhere", "north", False),
    "of no instance": ("", "north", False),
    "from the topic that all shared": ("here", None, True),
    "by a planner, of none": ("nowhere", None, True),
}


@pytest.mark.parametrize(("instance", "origin", "kept"), REPORTS.values(), ids=REPORTS)
def test_report_when_its_topic_is_a_clusters_then_only_those_of_its_instances_stay(
    instance: str, origin: str | None, kept: bool
) -> None:
    told, command = report(instance, origin), changed(1)
    assert without_foreign_reports([told, command], find) == ([told, command] if kept else [command])


def test_report_when_it_is_of_another_cluster_then_operators_are_told_whose_agents_wrote_it() -> None:
    with capture_logs() as logs:
        without_foreign_reports([report("here", "south"), report("here", "south"), report("nowhere", "south")], find)
    (entry,) = logs
    assert (entry["reporting"], entry["instance"], entry["cluster"], entry["reports"]) == ("south", "here", "north", 2)


def test_clusters_when_no_report_is_of_a_clusters_topic_then_they_are_not_looked_up() -> None:
    events = [changed(1), report("here", None)]
    assert without_foreign_reports(events, cast("Any", None)) is events


@pytest.mark.parametrize(("topic", "origin"), [(observations_topic("north"), "north"), (OBSERVATIONS, None)])
def test_report_when_decoded_then_its_topic_says_whose_it_is(topic: str, origin: str | None) -> None:
    message: Any = observed(1, StatusReported("{}", "1"), instance="here").message
    assert isinstance(message, Observation)
    event = decode_event(consumed(topic, 0, b"", b""), {OBSERVATIONS: cast("Any", Known(message))})
    assert (event.message, event.reporting_cluster) == (message, origin)
