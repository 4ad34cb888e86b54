"""Which instance a pool gives up, and how: drained, its tenants moved, then retired. Pure.

The emptiest that the others can do without is given up, one at a time. One with a tenant that was moved within a day is
not: no tenant is moved twice a day. Nor is one that a tenant is pinned to. Called by ``resizing.py``, which decides
when a pool shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.common.messages import DrainEngineInstance, RetireEngineInstance, UndrainEngineInstance
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.pools.planned_fleet import PlannedFleet, find_members
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.pools.pool_size import SLACK, lacking_instances
from services.planner.domain.fleet.rows import EngineInstanceRow


def find_dispensable(
    pool: EnginePool, planned: PlannedFleet, members: Iterable[EngineInstanceRow], load: int
) -> list[EngineInstanceRow]:
    """Instances that work, that we have installed, and without which the others that serve are enough: without any one.

    None that a tenant is pinned to, also one that is still to come: it could not be retired.
    """
    working = [row for row in members if planned.fleet.takes_tenants(row)]
    serving = {row.id: row.capacity for row in working if planned.is_serving(row)}
    pinned = {pin.engine_instance_id for pin in planned.fleet.rules.pins.values()}
    count, capacity = len(serving), sum(serving.values())

    def are_others_enough(row: EngineInstanceRow) -> bool:
        count_of_others, its_own = count - (row.id in serving), serving.get(row.id, 0)
        return not lacking_instances(load, pool, count_of_others, capacity - its_own, SLACK)

    return [row for row in working if row.wanted_version and row.id not in pinned and are_others_enough(row)]


def begin_shrinking(pool: EnginePool, planned: PlannedFleet, dispensable: Iterable[EngineInstanceRow]) -> EnginePool:
    """The pool with an instance that it gives up from now on, if it can do without one."""
    leaving = _emptiest(planned, dispensable)
    if leaving is None or not planned.give_order(DrainEngineInstance(leaving)):
        return pool
    return replace(pool, leaving=leaving, shrinks_at=None)


def _emptiest(planned: PlannedFleet, dispensable: Iterable[EngineInstanceRow]) -> str | None:
    """The one to give up: none whose tenants have just come, or are on their way."""
    dispensable = [*dispensable]
    busy = {
        tenant.engine_instance_id
        for tenant in planned.fleet.tenants.on([row.id for row in dispensable]).values()
        if tenant.id in planned.burdens.moved_of_late or is_moving(tenant, planned.fleet)
    } | {move.target for move in planned.fleet.moves.values()}
    free = [row for row in dispensable if row.id not in busy]
    return min(free, key=lambda row: (planned.load_of(row.id), row.id)).id if free else None


def continue_shrinking(pool: EnginePool, planned: PlannedFleet, veto: str, *, is_needed: bool) -> EnginePool:
    """The pool a step further with the instance that it gives up: its tenants leave, then it is retired.

    It stays if it ``is_needed`` after all.
    """
    row = planned.fleet.instances.get(pool.leaving or "")
    if row is None or not row.is_leaving:
        return replace(pool, leaving=None)
    if is_needed and planned.give_order(UndrainEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    if row.state == "drained":
        return _retire_leaving(pool, row, planned)
    if veto:
        return replace(pool, message=f"{row.id} waits to be given up: {veto}")
    others = find_members(pool.key, planned.fleet)
    left = [name for name, tenant in planned.tenants_on(row.id) if not planned.move_tenant(name, tenant, others)]
    if not left:
        return replace(pool, message="")
    why = planned.refusal or "no other instance of the pool has room for them"
    return replace(pool, message=f"{len(left)} tenants cannot leave {row.id}: {why}")


def _retire_leaving(pool: EnginePool, row: EngineInstanceRow, planned: PlannedFleet) -> EnginePool:
    """The pool without the instance that it gives up, or with a message that names the rule which keeps it."""
    if planned.give_order(RetireEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    return replace(pool, message=planned.refusal and f"{row.id} is not retired: {planned.refusal}")
