"""Which tenants leave an overloaded instance, in a pool or not. Pure.

If an instance carries more than ``OVERLOAD`` of its capacity for long, the fewest tenants that bring it to ``TARGET``
leave it (``pool_size.py``). Each goes to an instance that stays within ``TARGET`` with it, so that none comes back. A
tenant that was moved within a day stays. ``scaling.py`` calls this.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.pools.planned_fleet import PlannedFleet
from services.planner.domain.fleet.pools.pool_rows import Overload, Patience
from services.planner.domain.fleet.pools.pool_size import is_overloaded, target_load
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.rows.tenants import TenantName


def has_overloaded(view: PlacementView) -> bool:
    """Whether any instance was overloaded when loads were measured last."""
    return any(
        is_overloaded(view.load.get(each.id, 0), each.capacity)
        for each in view.instances.values()
        if not (each.leaving or each.unready)
    )


def relieve_overloaded(planned: PlannedFleet, patience: Patience, veto: str) -> dict[str, Overload]:
    """The rows of overloaded instances, after those that were overloaded for long have been relieved.

    An instance that is down is not relieved: remediation evacuates it.
    """
    found: dict[str, Overload] = {}
    for row in planned.fleet.instances.values():
        if row.is_taking and is_overloaded(planned.load_of(row.id), row.capacity):
            due = Overload(row.id, planned.now + patience.overload)
            before = planned.burdens.overloads.get(row.id)
            found[row.id] = before or due
            # One that is new waits in any case: nothing was loaded of its tenants.
            is_due = before is not None and before.relieved_at <= planned.now
            if is_due and not veto and not planned.fleet.is_down(row.id):
                _relieve(row, planned)
                found[row.id] = due
    return found


def _relieve(row: EngineInstanceRow, planned: PlannedFleet) -> None:
    """Order the fewest tenants away that bring an instance to its target load.

    First the smallest that is enough alone, then the largest ones.
    """
    targets = find_alike(row, planned.fleet)
    for name, tenant in _candidates(row, planned):
        if planned.load_of(row.id) <= target_load(row.capacity):
            return
        planned.move_tenant(name, tenant, targets)


def _candidates(row: EngineInstanceRow, planned: PlannedFleet) -> Iterator[tuple[TenantName, TenantHere]]:
    excess = planned.load_of(row.id) - target_load(row.capacity)
    free = [
        each for each in planned.tenants_on(row.id) if each[1].id not in planned.burdens.moved_of_late and each[1].load
    ]
    enough = [each for each in free if each[1].load >= excess]
    yield from enough[-1:]
    yield from (each for each in free if each not in enough[-1:])


def find_alike(row: EngineInstanceRow, fleet: Fleet) -> list[EngineInstanceRow]:
    """Instances in service that tenants of this one may be moved to, itself included.

    They are in the same ring, because each ring gets a version at its own time.
    """

    def sort_of(each: EngineInstanceRow) -> tuple[str, ...]:
        return (each.engine, each.region, each.ring, each.engine_class, each.dedicated_to)

    return [each for each in fleet.instances.values() if each.is_in_service and sort_of(each) == sort_of(row)]
