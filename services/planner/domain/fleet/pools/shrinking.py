"""Which instance a pool gives up, and how: it is drained, its tenants move, then it is retired. Pure.

One instance at a time is given up: the emptiest that the pool can do without. An instance stays if one of its tenants
was moved within a day, because no tenant is moved twice a day, or if a tenant is pinned to it. ``resizing.py`` decides
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
    """Ready, installed instances any one of which could be removed: the others in service would be enough.

    Instances that a tenant is pinned to are left out, even if the tenant does not exist yet: they could not be retired.
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
    """The pool giving up an instance from now on; as it was if none can be given up."""
    leaving = _emptiest(planned, dispensable)
    if leaving is None or not planned.give_order(DrainEngineInstance(leaving)):
        return pool
    return replace(pool, leaving=leaving, shrinks_at=None)


def _emptiest(planned: PlannedFleet, dispensable: Iterable[EngineInstanceRow]) -> str | None:
    """Id of the instance to give up; None: each has tenants that have just come or are on their way."""
    dispensable = [*dispensable]
    busy = {
        tenant.engine_instance_id
        for tenant in planned.fleet.tenants.on([row.id for row in dispensable]).values()
        if tenant.id in planned.burdens.moved_of_late or is_moving(tenant, planned.fleet)
    } | {move.target for move in planned.fleet.moves.values()}
    free = [row for row in dispensable if row.id not in busy]
    return min(free, key=lambda row: (planned.load_of(row.id), row.id)).id if free else None


def continue_shrinking(pool: EnginePool, planned: PlannedFleet, veto: str, *, is_needed: bool) -> EnginePool:
    """The pool after the next step with the instance that it gives up: tenants leave, then it is retired.

    If the instance ``is_needed`` after all, it stays. One that was dedicated meanwhile is the pool's no more.
    """
    row = planned.fleet.instances.get(pool.leaving or "")
    if row is None or not row.is_leaving or row.engine_class != "shared":
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
