"""Where a tenant goes that leaves an instance which is down. Pure.

Where the instance that it is meant for has no room, it goes to another; likewise where a move there went back of late,
because the tenant could not be prepared. Those that no instance has room for wait for one that is not ready yet and
will have them. The others of them go to whichever carries the least for its capacity, and half as much again at most:
what carries too much deploys, if late, and is relieved later; what is down deploys nothing.
Called by ``evacuation.py``, which decides who leaves, and finds a place for all that have room before the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from services.common.messages import FleetOrder, MoveTenant
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.move_orders import new_move, new_move_beyond_room, on_trial
from services.planner.domain.fleet.moves.rebalance import PlacedTenant, rebalance
from services.planner.domain.fleet.moves.rebalance_orders import is_moving, load_staying, placed_tenant, stays
from services.planner.domain.fleet.placement.assignment_orders import require_unpinned
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.placement.placement import order_of
from services.planner.domain.fleet.remediation.forced_moves import find_reason
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR
from services.planner.domain.fleet.rows import EngineInstanceRow, Move, Refused
from services.planner.domain.ids import operation_id
from services.planner.rows.fleet import PlacementCandidate

MOST_BEYOND = 1.5
"""Times its capacity an instance has at most by an evacuation, or by a ring that goes back: it must not be ill of that,
too."""


class LacksRoom(Refused):
    """All that keeps a tenant is that nobody has room for it."""

    def __init__(self, rule: str, awaited: str = "") -> None:
        """``awaited``: the instance that will have room once it is ready."""
        super().__init__(f"no instance has room, {rule}")
        self.awaited = awaited


def find_relocations(instance: str, fleet: Fleet) -> Iterator[tuple[PlacedTenant, list[PlacementCandidate]]]:
    """Tenants that are on an instance and stay there by now, each with where it may go, the best first.

    Those come last that its moves have come back from, and of the others instances of a version that is on trial.
    """
    source = fleet.instances[instance]
    rows = [row for row in fleet.instances.values() if not row.is_retired and row.engine == source.engine]
    alike = [replace(fleet.candidate(row), leaving=row.is_leaving or row.id == instance) for row in rows]
    here = [
        placed_tenant(name, tenant, source, fleet)
        for name, tenant in fleet.tenants.on([instance]).items()
        if not is_moving(tenant, fleet)
    ]
    meant = {each.placed.tenant.id: each.target for each in rebalance(here, alike, _load_carried(instance, fleet))}
    trial = on_trial(fleet)
    others = [fleet.candidate(row) for row in rows if row.id != instance and fleet.takes_tenants(row)]
    for placed in sorted(here, key=lambda each: (-each.load, each.tenant.id)):
        first = meant.get(placed.tenant.id)
        rest = [each for each in order_of(placed.tenant.id, others) if each != first]
        targets = [first, *rest] if first is not None and first.id != instance else rest

        def precedence(each: PlacementCandidate, tenant: UUID = placed.tenant.id) -> tuple[int, bool]:
            return fleet.returned.get((tenant, each.id), 0), each.id in trial

        yield placed, sorted(targets, key=precedence)


def _load_carried(instance: str, fleet: Fleet) -> Counter[str]:
    """What instances carry and will carry, but tenants that are to leave."""
    carried = load_staying(fleet)
    for name, tenant in fleet.tenants.items():
        if tenant.engine_instance_id != instance and not stays(name, tenant, fleet):
            carried[tenant.engine_instance_id] += tenant.load
    return carried


def find_move_to_room(placed: PlacedTenant, targets: Iterable[PlacementCandidate], fleet: Fleet, now: datetime) -> Move:
    """The move of a tenant to the first of ``targets`` that may have it. Raises Refused, with the first rule.

    Those that are closed count, too: they come last.
    """
    refused = list[Refused]()
    for target in targets:
        if fleet.instances[target.id].state == "accepting":
            try:
                return _ordered_move(placed, target, fleet, now, new_move)
            except Refused as rule:
                refused.append(rule)
    raise refused[0] if refused else Refused("no other instance takes it")


def find_move_beyond_room(
    coming: Iterable[EngineInstanceRow],
    placed: PlacedTenant,
    targets: Iterable[PlacementCandidate],
    fleet: Fleet,
    now: datetime,
) -> Move:
    """Likewise, beyond their capacities: to the one that carries the least for its own then.

    Nobody moves whom one will have of those that are ``coming``: not ready yet. Targets that the tenant's moves have
    come back from come last as ever, and of the others instances that are on trial.
    """
    tenant, trial = fleet.tenants[placed.tenant.full_name], on_trial(fleet)
    require_unpinned(placed.tenant.full_name, fleet)
    if awaited := next((row.id for row in coming if _will_have(row, placed, fleet)), ""):
        raise LacksRoom(f"and {awaited} is provisioning", awaited)

    def fullness(each: PlacementCandidate) -> float:
        return (fleet.holding(each.id).deployments + tenant.deployments) / each.capacity

    def precedence(each: PlacementCandidate) -> tuple[int, bool, float, str]:
        return fleet.returned.get((tenant.id, each.id), 0), each.id in trial, fullness(each), each.id

    too_full = ""
    for target in sorted(targets, key=precedence):
        with suppress(Refused):
            move = _ordered_move(placed, target, fleet, now, new_move_beyond_room)
            if fullness(target) <= MOST_BEYOND:
                without_room = f"no instance that accepts tenants has room for its {tenant.deployments} Applications"
                return replace(move, message=f"{without_room}: it goes to {target.id} all the same")
            too_full = too_full or target.id
    if too_full:
        rule = f"and {too_full} would have more than {MOST_BEYOND} times its capacity: 'gitopsctl engines add' another"
        raise LacksRoom(rule)
    raise Refused("no other instance takes it")


def _will_have(row: EngineInstanceRow, placed: PlacedTenant, fleet: Fleet) -> bool:
    """Whether an instance that is not ready yet takes the tenant once it is ready, as far as anybody knows."""
    source, tenant = fleet.instances[placed.tenant.engine_instance_id], fleet.tenants[placed.tenant.full_name]
    return (
        row.engine == source.engine
        and fleet.clusters[row.engine_cluster].state == "active"
        and not fleet.is_out_of_reach(row.id)
        and not placed.affinity.refusal(row)
        and not _affinity_from(placed, source).refusal(row)
        and fleet.holding(row.id).deployments + tenant.deployments <= row.capacity
    )


def _affinity_from(placed: PlacedTenant, source: EngineInstanceRow) -> Affinity:
    """Only an operator orders a tenant from an instance that its workspace has to itself to a shared one.

    From a shared one it goes to another, lest it stay on one that is down.
    """
    workspace = placed.tenant.workspace
    return Affinity(workspace, has_own=source.dedicated_to == workspace)


def _ordered_move(
    placed: PlacedTenant,
    target: PlacementCandidate,
    fleet: Fleet,
    now: datetime,
    order_move: Callable[[MoveTenant, FleetOrder, Fleet], Move],
) -> Move:
    """The move of a tenant, by the rules of ``order_move``. Raises Refused.

    One that takes the place of a move that has begun has so, too: what the tenant shows is held without a gap.
    """
    source = fleet.instances[placed.tenant.engine_instance_id]
    if refusal := _affinity_from(placed, source).refusal(target):
        raise Refused(refusal)
    current = fleet.moves.get(placed.tenant.id)
    if current is not None and (current.source, current.path) == (target.id, "fenced"):
        raise Refused(f"engine instance {target.id} has not given up what it had of the tenant")
    wanted = MoveTenant(*placed.tenant.full_name, target.id)
    order = FleetOrder(_order_id(placed.tenant.id, now), ACTOR, now, wanted)
    move = replace(order_move(wanted, order, fleet), path="forced", evacuated_for=find_reason(source.id, fleet))
    return move if current is None or current.step == "ordered" else replace(move, step="reserved", due_at=now)


def _order_id(tenant: UUID, now: datetime) -> UUID:
    return operation_id(tenant, f"evacuation/{now.isoformat()}")
