"""Decides on operators' orders about pools. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.common.messages import RINGS, RemoveEnginePool, SetEnginePool
from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.fleet.cluster_orders import require_active
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import (
    joined,
    known_cluster,
    require_label,
    require_one_of,
    require_version,
    untested,
)
from services.planner.domain.fleet.pools.pool_rows import EnginePool, longest_namespace
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL
from services.planner.domain.fleet.rows import Refused, Release
from services.planner.rows.fleet import DEFAULT_ENGINE

MOST_INSTANCES = 1000
MOST_CAPACITY = 1_000_000


def change_pool(wanted: SetEnginePool | RemoveEnginePool, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """A message about the order, and the fleet after it: the same object if nothing has changed. Raises Refused."""
    return _set_pool(wanted, fleet, at) if isinstance(wanted, SetEnginePool) else _remove_pool(wanted, fleet)


def without_leaving(instance: str, fleet: Fleet) -> Fleet:
    """The fleet with no pool giving ``instance`` up any more; the same object if none does.

    If an operator drains an instance that its pool gives up, it stays drained, whatever the pool needs.
    """
    pool = next((each for each in fleet.pools.values() if each.leaving == instance), None)
    return fleet if pool is None else fleet.with_pool(replace(pool, leaving=None))


def _set_pool(wanted: SetEnginePool, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    stored = fleet.pools.get((wanted.engine_cluster, wanted.ring))
    if stored is not None and at <= stored.ordered_at:
        return f"a newer order, of {stored.ordered_at.isoformat()}, has changed the pool", fleet
    cluster = known_cluster(wanted.engine_cluster, fleet)
    require_one_of("ring", wanted.ring, RINGS)
    require_active(cluster.id, fleet)
    _require_short_names(wanted)
    _require_numbers(wanted)
    require_version(DEFAULT_ENGINE, wanted.version, fleet)
    if wanted.profile:
        require_label("a profile", wanted.profile)
    _require_release(wanted, fleet)
    row = EnginePool(
        engine_cluster=wanted.engine_cluster,
        ring=wanted.ring,
        minimum=wanted.minimum,
        maximum=wanted.maximum,
        spare=wanted.spare,
        capacity=wanted.capacity,
        version=wanted.version,
        profile=wanted.profile,
        ordered_at=at,
        leaving=stored.leaving if stored else None,
    )
    if stored is not None and replace(stored, ordered_at=at, shrinks_at=None, message="") == row:
        return joined("it is so", untested(DEFAULT_ENGINE, wanted.version, fleet)), fleet
    return untested(DEFAULT_ENGINE, wanted.version, fleet), fleet.with_pool(row)


def _require_release(wanted: SetEnginePool, fleet: Fleet) -> None:
    """Raises Refused if the ring's old instances drain in a rollout, and the pool would add another release."""
    rollout = fleet.rollout
    if rollout is None or rollout.step not in FINAL or rollout.ring != wanted.ring:
        return
    if Release(wanted.version, wanted.profile) != rollout.release:
        raise Refused(
            f"ring {rollout.ring} is being rolled out, and what its pools add is {rollout.release.in_words} until that "
            "is over ('gitopsctl engines rollout status'): give that '--version' and '--profile'"
        )


def _remove_pool(wanted: RemoveEnginePool, fleet: Fleet) -> tuple[str, Fleet]:
    pool = fleet.pools.get((wanted.engine_cluster, wanted.ring))
    if pool is None:
        return "there is none", fleet
    leaving = fleet.instances.get(pool.leaving or "")
    message = "its instances stay"
    if leaving is not None and leaving.is_leaving:
        message = (
            f"{message}; engine instance {leaving.id}, which it was giving up, is {leaving.state}: "
            f"'gitopsctl engines undrain {leaving.id}' has it take tenants again"
        )
    return message, fleet.without_pool(pool.key)


def _require_short_names(wanted: SetEnginePool) -> None:
    """Raises Refused if namespaces of the pool's instances, named after cluster and ring, would be too long."""
    excess = len(longest_namespace(wanted.engine_cluster, wanted.ring)) - MAX_LABEL
    if excess > 0:
        raise Refused(
            f"the id of engine cluster {wanted.engine_cluster} is {excess} characters too long for a pool of ring "
            f"{wanted.ring}: 'gitopsctl engines add' adds instances there, with a shorter --namespace"
        )


def _require_numbers(wanted: SetEnginePool) -> None:
    if not 0 <= wanted.minimum <= wanted.maximum <= MOST_INSTANCES:
        raise Refused(
            f"a pool has at least --min and at most --max instances, between 0 and {MOST_INSTANCES}: "
            f"not {wanted.minimum} and {wanted.maximum}"
        )
    if not 0 <= wanted.spare <= MOST_INSTANCES:
        raise Refused(f"spare instances are between 0 and {MOST_INSTANCES}, not {wanted.spare}")
    if not 1 <= wanted.capacity <= MOST_CAPACITY:
        raise Refused(f"a capacity is between 1 and {MOST_CAPACITY} Applications, not {wanted.capacity}")
