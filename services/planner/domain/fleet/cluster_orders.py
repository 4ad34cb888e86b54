"""Decides on orders about engine clusters. Pure.

A cluster that is drained drains its instances: their states say what becomes of each, and what is known of draining
instances (``orders``, ``rebalance_orders``) holds for them. One that was never ready for tenants is drained once it is
(``pools/readiness.py``): if it were before, it would take tenants when the cluster is undrained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from services.common.messages import (
    AddEngineCluster,
    DrainEngineCluster,
    RetireEngineCluster,
    UndrainEngineCluster,
)
from services.planner.domain.events import ClusterTopic
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import known_cluster, require_label
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Refused


def add_cluster(
    added: AddEngineCluster, topics: Iterable[ClusterTopic], fleet: Fleet, at: datetime
) -> tuple[str, Fleet]:
    """The message for operators, and the fleet afterwards: the very same if nothing has changed. Raises Refused.

    Args:
        added: the order.
        topics: of the cluster; none if nobody has asked for them.
        fleet: all rows.
        at: when it was ordered.
    """
    require_label("an engine cluster's id", added.id)
    if added.region:
        require_label("a region", added.region)
    known = fleet.clusters.get(added.id)
    if known is None:
        for topic in topics:
            _require_topic(added.id, topic)
        return "", fleet.with_cluster(EngineClusterRow(added.id, added.region, at, "active", at))
    if known.is_retired:
        raise Refused(f"engine cluster {known.id} is retired, and its id is not given out again: give another")
    if known.region != added.region:
        raise Refused(
            f"engine cluster {added.id} is in region '{known.region}', not '{added.region}', for good: add another one"
        )
    return "it is known", fleet


def change_cluster(
    given: DrainEngineCluster | UndrainEngineCluster | RetireEngineCluster, fleet: Fleet, at: datetime
) -> tuple[str, Fleet]:
    """The same of an order that a cluster takes no instances and tenants, takes them again, or is given up."""
    known = known_cluster(given.id, fleet)
    if at <= known.ordered_at:
        return f"a newer order, of {known.ordered_at.isoformat()}, has changed the engine cluster", fleet
    match given:
        case DrainEngineCluster():
            return _drain(known, fleet, at)
        case UndrainEngineCluster():
            return _undrain(known, fleet, at)
        case RetireEngineCluster():
            return _retire(known, fleet, at)


def require_active(cluster: str, fleet: Fleet) -> None:
    """Raises Refused if no instance is to be added to the cluster, or to take tenants there."""
    known = fleet.clusters[cluster]
    _require_not_retired(known)
    if known.state == "draining":
        raise Refused(
            f"engine cluster {known.id} is draining: 'gitopsctl engine-clusters undrain {known.id}' has it take "
            "instances and tenants again"
        )


def is_drained_with_cluster(instance: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether no order of its own keeps it so once the cluster is undrained: it has the time of the cluster's drain."""
    cluster = fleet.clusters[instance.engine_cluster]
    return instance.is_leaving and (cluster.state, cluster.ordered_at) == ("draining", instance.ordered_at)


def _require_topic(cluster: str, topic: ClusterTopic) -> None:
    """Raises Refused if not all that is of the cluster could be written to it: everybody's rows would wait behind."""
    if topic.partitions is None:
        raise Refused(
            f"planners may not ask whether engine cluster {cluster} has its topic {topic.name}: 'gitopsctl topics "
            "acls' gives them the right, then order it again"
        )
    if topic.partitions == 0:
        raise Refused(
            f"engine cluster {cluster} has no topic {topic.name}: 'gitopsctl engine-clusters add {cluster}' makes it"
        )
    if topic.partitions != topic.needed:
        raise Refused(
            f"topic {topic.name} of engine cluster {cluster} has {topic.partitions} partitions and needs "
            f"{topic.needed}: delete it if it is empty, then 'gitopsctl engine-clusters add {cluster}' makes it"
        )


def _drain(known: EngineClusterRow, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if known.state == "draining":
        return "it is draining", fleet
    _require_not_retired(known)
    after = fleet.with_cluster(replace(known, state="draining", ordered_at=at))
    drained = [each for each in _instances_of(known, fleet) if not (each.is_leaving or each.is_unready)]
    for each in drained:
        after = after.with_instance(replace(each, state="draining", ordered_at=at))
    return f"engine instances that drain: {', '.join(each.id for each in drained) or 'none'}", after


def _undrain(known: EngineClusterRow, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """Instances that were drained by orders of their own stay so."""
    if known.state == "active":
        return "it is active", fleet
    _require_not_retired(known)
    after = fleet.with_cluster(replace(known, state="active", ordered_at=at))
    for each in _instances_of(known, fleet):
        if is_drained_with_cluster(each, fleet):
            after = after.with_instance(replace(each, state="accepting", ordered_at=at))
    return "", after


def _retire(known: EngineClusterRow, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if known.is_retired:
        return "it is retired", fleet
    if left := [each.id for each in _instances_of(known, fleet)]:
        raise Refused(
            f"engine cluster {known.id} still has engine instances: {', '.join(left)}; "
            f"'gitopsctl engine-clusters drain {known.id}' and 'gitopsctl engines rebalance' empty them, and "
            "'gitopsctl engines retire' gives each up"
        )
    if rings := sorted(ring for cluster, ring in fleet.pools if cluster == known.id):
        raise Refused(
            f"engine cluster {known.id} still has pools, of rings: {', '.join(rings)}; "
            "'gitopsctl engines pool remove' them first"
        )
    return "", fleet.with_cluster(replace(known, state="retired", ordered_at=at))


def _require_not_retired(known: EngineClusterRow) -> None:
    if known.is_retired:
        raise Refused(f"engine cluster {known.id} is retired, for good: 'gitopsctl engine-clusters list' shows others")


def _instances_of(known: EngineClusterRow, fleet: Fleet) -> Iterable[EngineInstanceRow]:
    """Those that are not retired, by their ids."""
    of_cluster = (each for each in fleet.instances.values() if each.engine_cluster == known.id and not each.is_retired)
    return sorted(of_cluster, key=lambda each: each.id)
