"""Drops reports about instances of other engine clusters. The loop calls this before it coalesces a batch.

Brokers let the agents of an engine cluster write to that cluster's topic alone. So the topic of a report, and nothing
in the report, shows which instances it may be about. A foreign report is dropped before events are coalesced, because
there it could replace a true one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from services.common.messages import Observation
from services.common.telemetry.metrics import Failure, count_failure
from services.planner import SERVICE
from services.planner.domain.events import Event

log = structlog.get_logger(__name__)

FindClusters = Callable[[Collection[str]], Mapping[str, str]]
"""Finds the engine cluster of each instance, by the id of the instance; instances that do not exist have none."""


def without_foreign_reports(events: Sequence[Event], find_clusters: FindClusters) -> Sequence[Event]:
    """``events`` without reports from the topic of a cluster that does not have the instance.

    Reports from the topic that all clusters once shared stay, and so do timer events.
    """
    named = {instance for event in events if (instance := _instance_to_check(event)) is not None}
    if not named:
        return events
    clusters = find_clusters(named)
    foreign = Counter[tuple[str, str]]()
    kept = []
    for event in events:
        instance, origin = _instance_to_check(event), event.reporting_cluster
        if instance is None or origin is None or clusters.get(instance) == origin:
            kept.append(event)
        elif instance in clusters:  # an agent may report on an instance a moment before or after it exists
            foreign[origin, instance] += 1
    _log_foreign(foreign, clusters)
    return kept


def _instance_to_check(event: Event) -> str | None:
    """The instance that a report is about; None if the event is no report, or its topic has no cluster."""
    if event.reporting_cluster is None or not isinstance(event.message, Observation):
        return None
    return event.message.engine_instance_id


def _log_foreign(foreign: Mapping[tuple[str, str], int], clusters: Mapping[str, str]) -> None:
    for (origin, instance), count in foreign.items():
        count_failure(SERVICE, Failure.REFUSED, "report")
        log.error(
            "agents report of an instance of another engine cluster; that is passed over",
            reporting=origin,
            instance=instance,
            cluster=clusters[instance],
            reports=count,
        )
