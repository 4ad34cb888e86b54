"""Which tenants leave an engine instance that is down, and where they go, by the rules of rebalances and moves. Pure.

All of them leave that a rule lets go. Where the instance that a tenant is meant for has no room, it goes to another;
likewise where a move there went back of late, because the tenant could not be prepared. Those that no instance has room
for wait for one that is not ready yet and will have them. The others of them go to whichever carries the least for
its capacity, and half as much again at most, once all others are placed: what carries too much deploys, if late, and is
relieved later; what is down deploys nothing.
Those that are leaving already go on to where they were ordered to go, unless they have not begun and that is down, too.
Those that have come by a move whose target, the instance, has not taken them over yet leave by another one, which takes
the place of that.
Those stay that have been evacuated from two others of late: one of them may be what makes one instance ill after the
other (by a cluster that answers nothing, say), and where tenants have many instances to go to few have been on the very
same three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from services.common.messages import FleetOrder, MoveTenant
from services.planner.domain.fleet.fleet import Fleet, TenantHere
from services.planner.domain.fleet.moves.move_orders import new_move, new_move_beyond_room, on_trial
from services.planner.domain.fleet.moves.rebalance import PlacedTenant, rebalance
from services.planner.domain.fleet.moves.rebalance_orders import is_moving, load_staying, placed_tenant, stays
from services.planner.domain.fleet.placement.assignment_orders import require_unpinned
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.placement.placement import order_of
from services.planner.domain.fleet.rows import ON_SOURCE, EngineInstanceRow, Move, MoveStep, Refused
from services.planner.domain.ids import operation_id
from services.planner.rows import EngineInstance, TenantName, tenant_of_part

ACTOR = "remediation"
"""Who orders the moves of an evacuation."""
RETURNED_WITHIN = timedelta(days=1)
"""For so long moves count that went back."""
EVACUATED_WITHIN = timedelta(days=1)
"""For so long it counts that a tenant was on an instance that was ill of what tenants may cause."""
MAX_EVACUATIONS = 2
"""From so many it is evacuated, and stays on the next: each has only a part of the tenants of the one before, so those
who have been on all of them become few soon. Instances fail by themselves, too, but seldom three times for a tenant."""


MOST_BEYOND = 1.5
"""Times its capacity an instance has at most by an evacuation, or by a ring that goes back: it must not be ill of that,
too."""


class LacksRoom(Refused):
    """All that keeps a tenant is that nobody has room for it."""

    def __init__(self, rule: str, awaited: str = "") -> None:
        """``awaited``: the instance that will have room once it is ready."""
        super().__init__(f"no instance has room, {rule}")
        self.awaited = awaited


def evacuate(instance: str, fleet: Fleet, now: datetime) -> tuple[str, Fleet]:
    """Why some of the tenants stay, and the fleet with the moves of the others.

    It is the very same if none moves, or waits for an instance that is not ready yet: room is taken for it there.

    Args:
        instance: that they leave.
        fleet: all rows, and all tenants.
        now: the time.
    """
    taken = _as_staying(instance, fleet)
    rules = _not_here_alone(instance, taken) | _suspects(instance, fleet)
    leaving = [each for each in _relocations(instance, taken) if each[0].tenant.full_name not in rules]
    coming = [row for row in fleet.instances.values() if row.state == "provisioning"]
    after, begun = fleet, dict[TenantName, Move]()
    for find_move in (_move_to_room, partial(_move_beyond_room, coming)):
        for placed, targets in leaving:
            name = placed.tenant.full_name
            if name in begun:
                continue
            try:
                begun[name] = find_move(placed, targets, after, now)
            except LacksRoom as rule:
                rules[name] = str(rule)
                after = after.with_coming(rule.awaited, fleet.tenants[name]) if rule.awaited else after
            except Refused as rule:
                rules.setdefault(name, str(rule))
            else:
                rules.pop(name, None)
                after = after.with_coming(begun[name].target, fleet.tenants[name])
    told = f"tenants that cannot leave: {len(rules)}; {next(iter(rules.values()))}" if rules else ""
    return told, after.with_moves(begun.values())


def changed_moves(before: Fleet, after: Fleet, now: datetime) -> tuple[Move, ...]:
    """The rows of moves that change: before one that takes the place of another that one, which is over by then."""
    found: list[Move] = []
    for move in after.moves.values():
        known = before.moves.get(move.tenant_id)
        if known is not None and known.id != move.id:
            message = f"engine instance {known.target} is down, and its tenant goes on to {move.target}"
            has_begun = known.step != "ordered"
            end: MoveStep = "done" if has_begun else "cancelled"  # which says nothing of its target
            over = replace(known, step=end, is_cancelled=not has_begun, step_since=now, due_at=None, message=message)
            found.append(over)
        if move != known:
            found.append(move)
    return tuple(found)


def with_forced_moves(instance: str, fleet: Fleet, now: datetime) -> Fleet:
    """With moves from the instance, whoever has ordered them, not waiting for it any more, nor for a place there."""
    return fleet.with_moves(
        replace(
            move, path="forced", evacuated_for=_reason(instance, fleet), due_at=None if move.step == "ordered" else now
        )
        for move in fleet.moves.values()
        if move.source == instance and move.path == "whole" and move.step in ("ordered", *ON_SOURCE)
    )


def without_forced_moves(instance: str, fleet: Fleet) -> Fleet:
    """With those that others have ordered and that have not begun as they were: the instance is not down any more."""
    return fleet.with_moves(
        replace(move, path="whole", evacuated_for="")
        for move in fleet.moves.values()
        if (move.source, move.step, move.path) == (instance, "ordered", "forced") and move.actor != ACTOR
    )


def without_evacuation(instance: str, fleet: Fleet, why: str) -> Fleet:
    """Without those of its moves that have not begun: its tenants stay for now, and operators are told why."""
    return fleet.with_moves(
        replace(move, is_cancelled=True, message=why)
        for move in fleet.moves.values()
        if move.source == instance and move.actor == ACTOR and move.step == "ordered" and not move.is_cancelled
    )


def find_stranded(instances: Iterable[str], fleet: Fleet, now: datetime) -> dict[str, str]:
    """Those of ``instances`` that tenants are on of which none can leave or is on its way, with why the first stays."""
    found = {}
    for instance in instances:
        here = [tenant for tenant in fleet.tenants.values() if tenant.engine_instance_id == instance]
        staying = _as_staying(instance, fleet)
        if here and not any(_is_leaving(tenant, staying) for tenant in here):
            message, after = evacuate(instance, fleet, now)
            if after is fleet:
                found[instance] = message
            fleet = replace(fleet, holdings=after.holdings)  # room is not taken twice
    return found


def _is_leaving(tenant: TenantHere, fleet: Fleet) -> bool:
    return is_moving(tenant, fleet) and fleet.moves[tenant.id].source == tenant.engine_instance_id


def _as_staying(instance: str, fleet: Fleet) -> Fleet:
    """As if the instance had taken over who has come to it: what it has not done yet, the next one does.

    And without moves from it that cannot begin.
    """

    def is_replaced(move: Move) -> bool:
        has_come = (move.target, move.step) == (instance, "adopting")
        return has_come or ((move.source, move.step) == (instance, "ordered") and fleet.is_down(move.target))

    return replace(fleet, moves={tenant: move for tenant, move in fleet.moves.items() if not is_replaced(move)})


def _not_here_alone(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants that are there by a move which is not over: its source has not given them up yet."""
    return {
        name: f"its move from {fleet.moves[tenant.id].source} is not over"
        for name, tenant in fleet.tenants.items()
        if tenant.engine_instance_id == instance and is_moving(tenant, fleet) and not _is_leaving(tenant, fleet)
    }


def _suspects(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants that may be what makes one instance ill after the other, each with why it stays.

    Whatever is told of this one now: what they cause may look like another illness at any look.
    """
    here = [name for name, tenant in fleet.tenants.items() if tenant.engine_instance_id == instance]
    others = {name: fleet.evacuations.get(tenant_of_part(name), frozenset()) - {instance} for name in here}
    return {
        name: f"it was evacuated from {' and '.join(sorted(left))} within a day, which were ill of what a tenant can "
        "cause, and stays here"
        for name, left in others.items()
        if len(left) >= MAX_EVACUATIONS
    }


def _reason(instance: str, fleet: Fleet) -> str:
    told = fleet.health.get(instance)
    return told.reason if told is not None else ""


def _relocations(instance: str, fleet: Fleet) -> Iterator[tuple[PlacedTenant, list[EngineInstance]]]:
    """Tenants that are there and stay there by now, each with where it may go, the best first.

    Those come last that its moves have come back from, and of the others instances of a version that is on trial.
    """
    source = fleet.instances[instance]
    rows = [row for row in fleet.instances.values() if not row.is_retired and row.engine == source.engine]
    alike = [replace(fleet.candidate(row), leaving=row.is_leaving or row.id == instance) for row in rows]
    here = [
        placed_tenant(name, tenant, source, fleet)
        for name, tenant in fleet.tenants.items()
        if tenant.engine_instance_id == instance and not is_moving(tenant, fleet)
    ]
    meant = {each.placed.tenant.id: each.target for each in rebalance(here, alike, _carried(instance, fleet))}
    trial = on_trial(fleet)
    others = [fleet.candidate(row) for row in rows if row.id != instance and fleet.takes_tenants(row)]
    for placed in sorted(here, key=lambda each: (-each.load, each.tenant.id)):
        first = meant.get(placed.tenant.id)
        rest = [each for each in order_of(placed.tenant.id, others) if each != first]
        targets = [first, *rest] if first is not None and first.id != instance else rest

        def precedence(each: EngineInstance, tenant: UUID = placed.tenant.id) -> tuple[int, bool]:
            return fleet.returned.get((tenant, each.id), 0), each.id in trial

        yield placed, sorted(targets, key=precedence)


def _carried(instance: str, fleet: Fleet) -> Counter[str]:
    """What instances carry and will carry, but tenants that are to leave."""
    carried = load_staying(fleet)
    for name, tenant in fleet.tenants.items():
        if tenant.engine_instance_id != instance and not stays(name, tenant, fleet):
            carried[tenant.engine_instance_id] += tenant.load
    return carried


def _move_to_room(placed: PlacedTenant, targets: Iterable[EngineInstance], fleet: Fleet, now: datetime) -> Move:
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


def _move_beyond_room(
    coming: Iterable[EngineInstanceRow],
    placed: PlacedTenant,
    targets: Iterable[EngineInstance],
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

    def fullness(each: EngineInstance) -> float:
        return (fleet.holding(each.id).deployments + tenant.deployments) / each.capacity

    def precedence(each: EngineInstance) -> tuple[int, bool, float, str]:
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
        and not _affinity(placed, source).refusal(row)
        and fleet.holding(row.id).deployments + tenant.deployments <= row.capacity
    )


def _affinity(placed: PlacedTenant, source: EngineInstanceRow) -> Affinity:
    """Only an operator orders a tenant from an instance that its workspace has to itself to a shared one.

    From a shared one it goes to another, lest it stay on one that is down.
    """
    workspace = placed.tenant.workspace
    return Affinity(workspace, has_own=source.dedicated_to == workspace)


def _ordered_move(
    placed: PlacedTenant,
    target: EngineInstance,
    fleet: Fleet,
    now: datetime,
    order_move: Callable[[MoveTenant, FleetOrder, Fleet], Move],
) -> Move:
    """The move of a tenant, by the rules of ``order_move``. Raises Refused.

    One that takes the place of a move that has begun has so, too: what the tenant shows is held without a gap.
    """
    source = fleet.instances[placed.tenant.engine_instance_id]
    if refusal := _affinity(placed, source).refusal(target):
        raise Refused(refusal)
    known = fleet.moves.get(placed.tenant.id)
    if known is not None and (known.source, known.path) == (target.id, "fenced"):
        raise Refused(f"engine instance {target.id} has not given up what it had of the tenant")
    wanted = MoveTenant(*placed.tenant.full_name, target.id)
    order = FleetOrder(_order_id(placed.tenant.id, now), ACTOR, now, wanted)
    move = replace(order_move(wanted, order, fleet), path="forced", evacuated_for=_reason(source.id, fleet))
    return move if known is None or known.step == "ordered" else replace(move, step="reserved", due_at=now)


def _order_id(tenant: UUID, now: datetime) -> UUID:
    return operation_id(tenant, f"evacuation/{now.isoformat()}")
