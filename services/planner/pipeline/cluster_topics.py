"""Asks the brokers for the topics of engine clusters that orders add. Called before a batch is planned.

Debezium cannot write the rows of a cluster whose topic is missing, and the rows of all clusters wait behind the first
of them. Agents cannot report without a topic of observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from services.common.errors import NoPermission, Retry
from services.common.kafka import (
    ENGINE_CLUSTER_NAME,
    Brokers,
    described_partitions,
    load_topics,
)
from services.common.messages import AddEngineCluster, FleetOrder
from services.planner.domain.events import ClusterTopic, Event

FindTopics = Callable[[Collection[str]], Mapping[str, Sequence[ClusterTopic]]]
"""Asks the brokers for the topics of engine clusters, by their ids. Raises Retry if they do not answer."""


def with_cluster_topics(events: Sequence[Event], find_topics: FindTopics) -> Sequence[Event]:
    """``events``, those that add an engine cluster with its topics. Raises Retry if the brokers do not answer."""
    added = clusters_to_add(events)
    if not added:
        return events
    topics = find_topics(added)
    return [replace(event, cluster_topics=tuple(topics.get(_added_cluster(event), ()))) for event in events]


def _added_cluster(event: Event) -> str:
    """Id of the engine cluster that an order adds; empty of another event."""
    match event.message:
        case FleetOrder(order=AddEngineCluster(id=cluster)):
            return cluster
        case _:
            return ""


def clusters_to_add(events: Iterable[Event]) -> frozenset[str]:
    """Ids of the engine clusters that orders add. Ids that are no valid names are left out: they have no topic."""
    return frozenset(each for each in map(_added_cluster, events) if re.fullmatch(ENGINE_CLUSTER_NAME, each))


def find_cluster_topics(brokers: Brokers, clusters: Collection[str]) -> dict[str, tuple[ClusterTopic, ...]]:
    """The topics of each of ``clusters``, by its id. Raises Retry if the brokers do not answer, or refuse our login.

    If the password was changed, the brokers refuse it until the planner is restarted, although its consumer still
    works. The planner does not end for that in the middle of a batch.
    """
    declared = {each: load_topics(engine_cluster=each) for each in clusters}
    try:
        partitions = described_partitions(brokers, (topic.name for topics in declared.values() for topic in topics))
    except NoPermission as error:
        raise Retry(str(error)) from error
    return {
        each: tuple(ClusterTopic(topic.name, partitions[topic.name], topic.partitions) for topic in topics)
        for each, topics in declared.items()
    }
