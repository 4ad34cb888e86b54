"""Asks the brokers for the topics of engine clusters that orders add. Called before a batch is planned.

Debezium cannot write the rows of a cluster whose topic is missing, and the rows of all clusters wait behind the first
of them. Agents cannot report without a topic of observations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from services.common.errors import NoPermission, Retry
from services.common.kafka import (
    ENGINE_CLUSTER_NAME,
    Brokers,
    described_partitions,
    load_topics,
)
from services.common.messages import AddEngineCluster, FleetOrder
from services.planner.domain.events import Event
from services.planner.domain.fleet.fleet import ClusterTopic


def clusters_to_add(events: Iterable[Event]) -> frozenset[str]:
    """Ids of the engine clusters that orders add. Ids that are no valid names are left out: they have no topic."""
    orders = (event.message.order for event in events if isinstance(event.message, FleetOrder))
    added = (order.id for order in orders if isinstance(order, AddEngineCluster))
    return frozenset(each for each in added if re.fullmatch(ENGINE_CLUSTER_NAME, each))


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
