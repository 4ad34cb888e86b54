"""How many instances a pool has: when it grows, and when it may shrink. Pure.

A pool has instances that carry its load at :data:`TARGET` of their capacities, and its spare ones, within its limits
(``pool_size.py``). It grows at once. It shrinks by one instance at a time (``shrinking.py``), when the others that
serve would have been enough for as long as operators lay down, at :data:`SLACK` of their capacities: so it does not
grow again for the next tenant.

An instance that remediation gives up counts no more: another is added before its tenants leave. Nor does one that a
rollout keeps tenants from. One that is not ready, down or closed is no reason to give up one that serves.

Until the last stage of a rollout of its ring a pool grows by what the old instances carry, as new tenants come to
these: the new ones, which the rollout orders, are no room for them. At the last stage it grows by what the new ones
carry, and what it adds is new. While its engine cluster is drained, or the database is rebuilt, a pool does nothing at
all. Called by ``scaling.py``, for each pool.
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


def resize_pool(pool: EnginePool, planned: PlannedFleet, patience: Patience, held: str) -> EnginePool:
    """The pool after its instances have been ordered.

    Args:
        pool: as it was.
        planned: takes the orders.
        patience: of operators.
        held: why no tenant may be moved now, so that no instance is given up; empty if they may.
    """
    if (why := _reason_to_rest(pool, planned.fleet)) is not None:
        return replace(pool, shrinks_at=None, message=why)
    members, adding = _sized_by(pool, planned), _as_it_adds(pool, planned.fleet)
    load = sum(planned.load_of(row.id) for row in members)
    counted = [row.capacity for row in members if planned.is_counted(row, adding)]
    lacking = lacking_instances(load, pool, len(counted), sum(counted))
    if pool.leaving is not None:
        pool = continue_shrinking(pool, planned, held, is_needed=lacking > 0)
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
    if held or not pool.is_shrinking(planned.now):
        return replace(pool, shrinks_at=pool.shrinks_at or planned.now + patience.shrink)
    return begin_shrinking(pool, planned, dispensable)


def _reason_to_rest(pool: EnginePool, fleet: Fleet) -> str | None:
    """Why nothing is done, as operators are told; empty while the cluster is drained: they know. None: all is done.

    In a rebuild there are rows of what has gone since, and none yet of what came later: loads are too high, or too low.
    """
    if fleet.is_rebuilt:
        return f"it neither grows nor shrinks: {REBUILT}"
    return None if fleet.clusters[pool.engine_cluster].state == "active" else ""


def _rollout_of(pool: EnginePool, fleet: Fleet) -> Rollout | None:
    """The rollout that is at a pool's ring now."""
    rollout = fleet.rollout
    return None if rollout is None or rollout.is_over or rollout.ring != pool.ring else rollout


def _as_it_adds(pool: EnginePool, fleet: Fleet) -> EnginePool:
    """The pool with the release of what it adds: that of a rollout, once new tenants of its ring come to that."""
    rollout = _rollout_of(pool, fleet)
    return pool.with_release(rollout.release) if rollout is not None and rollout.is_on_new else pool


def _sized_by(pool: EnginePool, planned: PlannedFleet) -> list[EngineInstanceRow]:
    """The instances by whose load and capacities a pool grows: all, or those of a rollout that take all new tenants.

    All when others leave: the old ones once they are given up, or the new ones as the ring goes back; who stays is to
    carry what is on those yet. They are told apart by what they were ordered with: so a pool counts what it has added.
    """
    fleet, members = planned.fleet, find_members(pool.key, planned.fleet)
    rollout = _rollout_of(pool, fleet)
    if rollout is None or rollout.step in ("reverting", *FINAL):
        return members
    return [row for row in members if (fleet.desired_release(row) == rollout.release) == rollout.is_on_new]


def _grow(adding: EnginePool, planned: PlannedFleet, members: Iterable[EngineInstanceRow], lacking: int) -> str:
    """Add instances. Returns why they are not added; empty if they are.

    None is while an installed one of the same release has failed: the next would fail, too. Nor one that takes no new
    tenant, as it is of the release that a rollout brings, or takes back: while a ring goes back it would be drained as
    soon as it joins, and never be enough.
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
