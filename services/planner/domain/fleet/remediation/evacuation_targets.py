"""Where a tenant goes that leaves an instance which is down. Pure.

Placement prefers one instance for the tenant. If that has no room, or a move there went back of late because the tenant
could not be prepared, the tenant goes to another instance with room. If no instance has room, the tenant waits for one
that is not ready yet and will have room. If there is none, it goes to the instance that carries the least for its
capacity, up to one and a half times the capacity: an instance that carries too much deploys late and is relieved later,
while one that is down deploys nothing.

``evacuation.py`` decides who leaves, and finds a place for all tenants that fit before it looks at the others.
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
"""How many times its capacity an instance carries at most after an evacuation, or after a ring went back: more would
make it ill, too."""


class LacksRoom(Refused):
    """A tenant stays only because no instance has room for it."""

    def __init__(self, rule: str, awaited: str = "") -> None:
        """``awaited``: id of the instance that will have room once it is ready; empty: there is none."""
        super().__init__(f"no instance has room, {rule}")
        self.awaited = awaited


def find_relocations(instance: str, fleet: Fleet) -> Iterator[tuple[PlacedTenant, list[PlacementCandidate]]]:
    """Tenants of an instance that no move is under way for, each with the instances that it may go to, the best first.

    Instances that moves of the tenant came back from are last; before them are instances of a release on trial.
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
    """What each instance carries or will carry, without the tenants that are to leave ``instance``."""
    carried = load_staying(fleet)
    for name, tenant in fleet.tenants.items():
        if tenant.engine_instance_id != instance and not stays(name, tenant, fleet):
            carried[tenant.engine_instance_id] += tenant.load
    return carried


def find_move_to_room(placed: PlacedTenant, targets: Iterable[PlacementCandidate], fleet: Fleet, now: datetime) -> Move:
    """The move of a tenant to the first of ``targets`` that may have it. Raises Refused, with the first rule.

    A closed instance may have it, too: ``targets`` has those last.
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
    """The move of a tenant for which no instance has room: to the one that is least overfull with it.

    Raises LacksRoom if one of the instances ``coming``, which are not ready yet, will have room, or if each would have
    too much; and Refused if no other instance may have the tenant. Instances that moves of the tenant came back from
    are tried last; before them are instances of a release on trial.
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
    """Whether an instance that is not ready yet will take the tenant, as far as anybody knows."""
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
    """Which instances may have a tenant that leaves ``source``.

    From an instance that its workspace has to itself the tenant goes to another such instance; only operators order it
    to a shared one. From a shared instance it may go to another shared one, so that it does not stay on one that is
    down.
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

    If it replaces a move that has begun, it begins at once: so the tenant's statuses stay held back without a gap.
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
