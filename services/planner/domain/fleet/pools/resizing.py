"""How many instances a pool has: when it grows, and when it may shrink. Pure.

Within its limits, a pool has as many instances as carry its load at ``TARGET`` of their capacities, and its spare ones
(``pool_size.py``). It grows at once. It shrinks by one instance at a time (``shrinking.py``), when the others in
service would have been enough, at ``SLACK`` of their capacities, for as long as operators have set: so it does not grow
again for the next tenant.

An instance that remediation gives up does not count, so another is added before its tenants leave. An instance that a
rollout keeps tenants from does not count either. An instance that is not ready, down or closed is no reason to give up
one in service.

During a rollout of its ring, before the last stage, a pool grows by what the old instances carry: new tenants come to
these, and have no room on the new instances, which the rollout orders. From the last stage on the pool grows by what
the new instances carry, and adds new ones. While its engine cluster is draining, or the database is being rebuilt, a
pool does nothing. ``scaling.py`` calls this for each pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.pools.planned_fleet import PlannedFleet, find_members
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Patience, order_for
from services.planner.domain.fleet.pools.pool_size import lacking_instances
from services.planner.domain.fleet.pools.shrinking import begin_shrinking, continue_shrinking, find_dispensable
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow

REBUILT = "the database is being rebuilt, and what instances carry is not known yet"


def resize_pool(pool: EnginePool, planned: PlannedFleet, patience: Patience, veto: str) -> EnginePool:
    """The pool after its instances have been ordered.

    Args:
        pool: as it was.
        planned: takes the orders.
        patience: what operators have set.
        veto: why no tenant may be moved now, so that no instance is given up; empty if tenants may.
    """
    if (why := _reason_to_rest(pool, planned.fleet)) is not None:
        return replace(pool, shrinks_at=None, message=why)
    members, adding = _sized_by(pool, planned), _as_it_adds(pool, planned.fleet)
    load = sum(planned.load_of(row.id) for row in members)
    counted = [row.capacity for row in members if planned.is_counted(row, adding)]
    lacking = lacking_instances(load, pool, len(counted), sum(counted))
    if pool.leaving is not None:
        pool = continue_shrinking(pool, planned, veto, is_needed=lacking > 0)
        return replace(pool, shrinks_at=None)
    if (added := min(lacking, pool.maximum - len(counted))) > 0:
        return replace(pool, message=_grow(adding, planned, members, added), shrinks_at=None)
    needed = len(counted) + lacking
    pool = replace(
        pool, message=f"it needs {needed} instances, and has at most {pool.maximum} (--max)" if lacking else ""
    )
    is_rolled_out = _rollout_of(pool, planned.fleet) is not None  # the ring has old instances beside new ones
    dispensable = [] if is_rolled_out else find_dispensable(pool, planned, members, load)
    if not dispensable:
        return replace(pool, shrinks_at=None)
    if veto or not pool.is_shrinking(planned.now):
        return replace(pool, shrinks_at=pool.shrinks_at or planned.now + patience.shrink)
    return begin_shrinking(pool, planned, dispensable)


def _reason_to_rest(pool: EnginePool, fleet: Fleet) -> str | None:
    """Why the pool does nothing, in words for operators; empty: they know, as the cluster is draining; None: it acts.

    During a rebuild loads are too high or too low: rows of what was deleted since are there, and newer ones are not.
    """
    if fleet.is_rebuilt:
        return f"it neither grows nor shrinks: {REBUILT}"
    return None if fleet.clusters[pool.engine_cluster].state == "active" else ""


def _rollout_of(pool: EnginePool, fleet: Fleet) -> Rollout | None:
    """The rollout that is at the pool's ring now; None: there is none."""
    rollout = fleet.rollout
    return None if rollout is None or rollout.is_over or rollout.ring != pool.ring else rollout


def _as_it_adds(pool: EnginePool, fleet: Fleet) -> EnginePool:
    """The pool with the release that it adds: the rollout's, once new tenants of the ring come to new instances."""
    rollout = _rollout_of(pool, fleet)
    return pool.with_release(rollout.release) if rollout is not None and rollout.is_on_new else pool


def _sized_by(pool: EnginePool, planned: PlannedFleet) -> list[EngineInstanceRow]:
    """The instances by whose load and capacities the pool grows.

    During a rollout these are the instances that take all new tenants: the old or the new ones. They are distinguished
    by the release that they were ordered with, so that the pool counts what it has added. Without a rollout, and while
    old instances are given up or the ring goes back, these are all instances: those that stay will carry what is on the
    others.
    """
    fleet, members = planned.fleet, find_members(pool.key, planned.fleet)
    rollout = _rollout_of(pool, fleet)
    if rollout is None or rollout.step in ("reverting", *FINAL):
        return members
    return [row for row in members if (fleet.desired_release(row) == rollout.release) == rollout.is_on_new]


def _grow(adding: EnginePool, planned: PlannedFleet, members: Iterable[EngineInstanceRow], lacking: int) -> str:
    """Add instances. Returns why they are not added, in words for operators; empty if they are.

    None is added while an installed instance of the same release has failed, because the next would fail, too. None is
    added of a release that a rollout brings or takes back, while new tenants do not come to that release: when a ring
    goes back, such an instance would drain as soon as it joins, and the pool would never have enough.
    """
    rollout = _rollout_of(adding, planned.fleet)
    if rollout is not None and not rollout.is_on_new and adding.release == rollout.release:
        comes = f"no new tenant comes to {rollout.release.in_words}, which it adds, for now"
        return f"the old instances of the ring lack {lacking} others: {comes}"
    installed = (row for row in members if row.wanted_version and planned.fleet.desired_release(row) == adding.release)
    failed = next((row for row in installed if row.state == "failed"), None)
    if failed is not None:
        return f"no instance is added: {failed.id} has failed, {failed.state_message}"
    for _ in range(lacking):
        if not planned.give_order(order_for(adding, planned.fleet.next_name(*adding.key))):
            return f"no instance is added: {planned.refusal}"
    return ""
