"""Asks the brokers for the topics of engine clusters that orders add. Called by the loop before it plans a batch.

Connect cannot write the rows of a cluster that has no topic, and everybody's rows wait behind the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from services.common.errors import NoPermission, Retry
from services.common.kafka import (
    DEFAULT_ENGINE_CLUSTER,
    ENGINE_CLUSTER_NAME,
    Brokers,
    described_partitions,
    engine_topic,
    load_topics,
)
from services.common.messages import AddEngineCluster, FleetOrder
from services.planner.domain.events import Event
from services.planner.domain.fleet.fleet import EngineTopic


def clusters_to_add(events: Iterable[Event]) -> frozenset[str]:
    """Ids of the engine clusters that orders add, as far as a cluster can be called so: others have no topic."""
    orders = (event.message.order for event in events if isinstance(event.message, FleetOrder))
    added = (order.id for order in orders if isinstance(order, AddEngineCluster))
    return frozenset(each for each in added if re.fullmatch(ENGINE_CLUSTER_NAME, each))


def find_engine_topics(brokers: Brokers, clusters: Collection[str]) -> dict[str, EngineTopic]:
    """The topic of each of ``clusters``, by its id. Raises Retry if the brokers do not answer, or refuse our login.

    A password that was changed is refused until the planner is started again, though its consumer goes on: no reason
    to end in the middle of a batch.
    """
    (declared,) = load_topics(engine_cluster=DEFAULT_ENGINE_CLUSTER)
    names = {each: engine_topic(each) for each in clusters}
    try:
        partitions = described_partitions(brokers, names.values())
    except NoPermission as error:
        raise Retry(str(error)) from error
    return {each: EngineTopic(name, partitions[name], declared.partitions) for each, name in names.items()}
