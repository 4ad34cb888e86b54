"""Gauges of what the database holds: of the planner's partitions, and of the whole fleet.

Every planner shows the same about the fleet, so it is known while any of them works.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from services.common.telemetry.metrics import (
    COMPLETE_EPOCH_AGE,
    ENGINE_INSTANCES,
    ENGINE_REMEDIATIONS,
    INSTANCE_OVERLOADED,
    INSTANCE_UNREADY,
    LEFT_BEHIND,
    MOVE_AGE,
    ORPHANS_KEPT,
    POOL_IN_WANT,
    REBUILD_AGE,
    RESOURCES,
    ROLLOUTS,
    STREAM_UNCONFIRMED,
    SWEEP_PARTS,
    SWEEPS_REFUSED,
    TENANTS_IN_MEMORY,
    TENANTS_LEFT,
    TENANTS_PARKED,
)
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner import SERVICE
from services.planner.database import (
    instance_queries,
    move_queries,
    periodic_queries,
    pool_queries,
    remedy_queries,
    rollout_queries,
)
from services.planner.pipeline.periodic_planner import PeriodicPlanner


def set_gauges(planner: PeriodicPlanner, connection: Connection[Any]) -> None:
    """Set all gauges that are read from the database."""
    _set_those_of_partitions(planner, connection)
    set_list_ages(planner, connection)
    _set_those_of_the_fleet(planner, connection)
    _set_unfinished(connection)
    TENANTS_IN_MEMORY.labels(SERVICE).set(planner.session.tenants.size)


def set_list_ages(planner: PeriodicPlanner, connection: Connection[Any]) -> None:
    """Set the seconds since the last complete list of each workspace and kind. A watcher that is gone shows by them."""
    now, kinds = planner.clock.now(), [kind.name for kind in planner.policy.kinds.kinds]
    ages = periodic_queries.list_ages(connection, kinds, planner.consumer.partitions, now)
    COMPLETE_EPOCH_AGE.clear()
    for (workspace, kind), seconds in ages.items():
        COMPLETE_EPOCH_AGE.labels(SERVICE, workspace, kind).set(seconds)


def _set_those_of_partitions(planner: PeriodicPlanner, connection: Connection[Any]) -> None:
    partitions = planner.consumer.partitions
    deployments = periodic_queries.count_deployments(connection, partitions)
    RESOURCES.labels(SERVICE, GITOPS_DEPLOYMENT.kind).set(deployments)
    LEFT_BEHIND.labels(SERVICE).set(periodic_queries.count_left_behind(connection, partitions))
    TENANTS_PARKED.labels(SERVICE).set(len(periodic_queries.parked_tenants(connection, partitions)))
    STREAM_UNCONFIRMED.labels(SERVICE).set(periodic_queries.unconfirmed_bytes(connection))
    REBUILD_AGE.labels(SERVICE).set(periodic_queries.rebuild_age(connection, planner.clock.now()))
    SWEEPS_REFUSED.labels(SERVICE).set(periodic_queries.count_refused_sweeps(connection, partitions))
    SWEEP_PARTS.labels(SERVICE).set(periodic_queries.count_sweep_parts(connection, partitions))
    ORPHANS_KEPT.labels(SERVICE).set(periodic_queries.count_kept_orphans(connection, partitions))


def _set_those_of_the_fleet(planner: PeriodicPlanner, connection: Connection[Any]) -> None:
    now = planner.clock.now()
    for health, count in instance_queries.count_by_health(connection).items():
        ENGINE_INSTANCES.labels(health).set(count)
    for state, count in remedy_queries.count_remediations(connection).items():
        ENGINE_REMEDIATIONS.labels(state).set(count)
    for step, seconds in move_queries.move_ages(connection, now).items():
        MOVE_AGE.labels(step).set(seconds)
    for state, count in rollout_queries.rollout_states(connection, now).items():
        ROLLOUTS.labels(state).set(count)


def _set_unfinished(connection: Connection[Any]) -> None:
    """Set gauges of instances and pools that need an operator. Those that are well again have none."""
    TENANTS_LEFT.clear()
    for instance, tenants in move_queries.count_unmoved(connection).items():
        TENANTS_LEFT.labels(instance).set(tenants)
    INSTANCE_UNREADY.clear()
    for instance, is_overdue in pool_queries.unready_instances(connection).items():
        INSTANCE_UNREADY.labels(instance).set(2 if is_overdue else 1)
    INSTANCE_OVERLOADED.clear()
    for instance in pool_queries.overloaded_instances(connection):
        INSTANCE_OVERLOADED.labels(instance).set(1)
    POOL_IN_WANT.clear()
    for (cluster, ring), wants in pool_queries.pools_in_want(connection).items():
        POOL_IN_WANT.labels(cluster, ring).set(wants)
