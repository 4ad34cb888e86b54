"""Decides on operators' orders about the fleet. Each is accepted, changes nothing, or breaks a rule, which is named.

Orders are decided in their order, by the planner that has their topic's one partition; what tenants are placed on is
read from the rows that this leaves. ``gitopsctl engines … --dry-run`` asks the same rules of what the database shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from services.common.json_values import canonical
from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    CancelMove,
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    RebalanceFleet,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.audit import move_record
from services.planner.domain.changes import Changes
from services.planner.domain.fleet.move_orders import cancel_move, move_tenant, settle_moves
from services.planner.domain.fleet.rebalance_orders import rebalance_fleet
from services.planner.domain.fleet.rows import (
    CLASSES,
    RINGS,
    ROOM_AGAIN,
    EngineClusterRow,
    EngineInstanceRow,
    Fleet,
    FleetOrderRecord,
    Holding,
    InstanceState,
    Move,
    Outcome,
    Refused,
)

MOST_CAPACITY = 1_000_000
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
ADDED_AS = ("engine_cluster", "namespace", "engine", "engine_class", "dedicated_to", "ring", "capacity")
"""What an instance was added with: the order and the row have it under the same names."""
ORDERED_STATES: Mapping[type, InstanceState] = {
    DrainEngineInstance: "draining",
    UndrainEngineInstance: "accepting",
    RetireEngineInstance: "retired",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one order."""

    outcome: Outcome
    message: str
    fleet: Fleet
    """As it is then."""


def decide_orders(orders: Iterable[FleetOrder], fleet: Fleet, now: datetime, moves_at_once: int = 1) -> Changes:
    """What becomes of ``orders``, in their order, of instances that tenants have left, and of moves that may begin.

    Args:
        orders: those of a batch.
        fleet: all rows before.
        now: when they are decided.
        moves_at_once: of each instance.
    """
    known, records, after = set(fleet.decided), [], fleet
    for order in orders:
        if order.id in known:
            continue
        known.add(order.id)
        decision = decide_order(order, after)
        records.append(_record(order, decision, now))
        after = decision.fleet
    after = settle_moves(_settled(after), now, moves_at_once)
    moves = tuple(move for move in after.moves.values() if move != fleet.moves.get(move.tenant_id))
    return Changes(
        engine_clusters=tuple(row for known_as, row in after.clusters.items() if known_as not in fleet.clusters),
        engine_instances=tuple(row for row in after.instances.values() if row != fleet.instances.get(row.id)),
        fleet_orders=tuple(records),
        moves_ordered=moves,
        audit_records=tuple(move_record(move) for move in moves if _is_new_step(move, fleet)),
    )


def _is_new_step(move: Move, fleet: Fleet) -> bool:
    before = fleet.moves.get(move.tenant_id)
    return before is None or before.step != move.step


def decide_order(order: FleetOrder, fleet: Fleet) -> Decision:
    """What becomes of one order."""
    try:
        message, after = _carried_out(order, fleet)
    except Refused as rule:
        return Decision("refused", str(rule), fleet)
    return Decision("unchanged" if after is fleet else "accepted", message, after)


def _carried_out(order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """What is told of it, and the fleet afterwards: the very same if nothing has changed. Raises Refused."""
    given, at = order.order, order.ordered_at
    if isinstance(given, AddEngineCluster):
        return _add_cluster(given, fleet, at)
    if isinstance(given, MoveTenant | CancelMove | RebalanceFleet):
        return _move_tenants(given, order, fleet)
    known = fleet.instances.get(given.id)
    if known is not None and at <= known.ordered_at:
        return f"a newer order, of {known.ordered_at.isoformat()}, has changed the instance", fleet
    if isinstance(given, AddEngineInstance):
        return _add_instance(given, fleet, at)
    if known is None:
        raise Refused(f"there is no engine instance '{given.id}'")
    return _in_state(known, ORDERED_STATES[type(given)], fleet, at)


def _move_tenants(
    given: MoveTenant | CancelMove | RebalanceFleet, order: FleetOrder, fleet: Fleet
) -> tuple[str, Fleet]:
    match given:
        case MoveTenant():
            return move_tenant(given, order, fleet)
        case CancelMove():
            return cancel_move(given, fleet)
        case RebalanceFleet():
            return rebalance_fleet(order, fleet)


def _add_cluster(added: AddEngineCluster, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    _require_label("an engine cluster's id", added.id)
    if added.region:
        _require_label("a region", added.region)
    known = fleet.clusters.get(added.id)
    if known is None:
        return "", fleet.with_cluster(EngineClusterRow(added.id, added.region, at))
    if known.region != added.region:
        raise Refused(f"engine cluster {added.id} is in region '{known.region}', not '{added.region}'")
    return "it is known", fleet


def _add_instance(added: AddEngineInstance, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    known = fleet.instances.get(added.id)
    if known is not None:
        _require_same(added, known)
        return "it is known", fleet
    _require_valid(added, fleet.engines)
    cluster = fleet.clusters.get(added.engine_cluster)
    if cluster is None:
        raise Refused(f"there is no engine cluster '{added.engine_cluster}'")
    _require_free(added, fleet)
    named = {name: getattr(added, name) for name in ADDED_AS}
    row = EngineInstanceRow(
        id=added.id, region=cluster.region, state="accepting", created_at=at, ordered_at=at, **named
    )
    return "", fleet.with_instance(row)


def _require_same(added: AddEngineInstance, known: EngineInstanceRow) -> None:
    if known.is_retired:
        raise Refused(f"engine instance {known.id} is retired, and its id is not given out again")
    for name in ADDED_AS:
        before, wanted = getattr(known, name), getattr(added, name)
        if before != wanted:
            raise Refused(f"{name.replace('_', ' ')} of engine instance {known.id} is '{before}', not '{wanted}'")


def _require_valid(added: AddEngineInstance, engines: Collection[str]) -> None:
    _require_label("an engine instance's id", added.id)
    _require_label("a namespace", added.namespace)
    _require_one_of("engine", added.engine, engines)
    _require_one_of("class", added.engine_class, CLASSES)
    _require_one_of("ring", added.ring, RINGS)
    if added.engine_class == "dedicated" and not added.dedicated_to:
        raise Refused("a dedicated engine instance needs the workspace that it is dedicated to")
    if added.engine_class == "shared" and added.dedicated_to:
        raise Refused(f"a shared engine instance is dedicated to no workspace, '{added.dedicated_to}' neither")
    if not 1 <= added.capacity <= MOST_CAPACITY:
        raise Refused(f"a capacity is between 1 and {MOST_CAPACITY} Applications, not {added.capacity}")


def _require_label(what: str, name: str) -> None:
    if len(name) > MAX_LABEL or not LABEL.fullmatch(name):
        raise Refused(f"{what} is a DNS label: at most {MAX_LABEL} of a-z, 0-9 and '-', not '{name[:MAX_LABEL]}'")


def _require_one_of(what: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise Refused(f"there is no {what} '{value}', but {', '.join(sorted(known))}")


def _require_free(added: AddEngineInstance, fleet: Fleet) -> None:
    """No other instance has its namespace: two would undo what each other does there."""
    place = (added.engine_cluster, added.namespace)
    for other in fleet.instances.values():
        if (other.engine_cluster, other.namespace) == place and not other.is_retired:
            raise Refused(
                f"namespace {added.namespace} of engine cluster {added.engine_cluster} is engine instance {other.id}'s"
            )


def _in_state(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """To another state."""
    if known.state == wanted or (wanted == "draining" and known.is_leaving):
        return f"it is {known.state}", fleet
    if known.is_retired:
        raise Refused(f"engine instance {known.id} is retired")
    if wanted == "retired":
        _require_empty(known, fleet)
    return _next_order(known, wanted, fleet), fleet.with_instance(replace(known, state=wanted, ordered_at=at))


def _next_order(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet) -> str:
    """What an operator has to order next, who gives an instance up; empty if nothing."""
    if wanted != "draining":
        return ""
    if tenants := fleet.holding(known.id).tenants:
        return f"its tenants stay on it ({tenants}) until 'gitopsctl engines rebalance' moves them"
    return f"no tenant is on it: 'gitopsctl engines retire {known.id}' gives it up"


def _require_empty(known: EngineInstanceRow, fleet: Fleet) -> None:
    held = fleet.holding(known.id)
    if held.tenants:
        raise Refused(f"engine instance {known.id} still has tenants: {held.tenants}")
    if held.objects:
        raise Refused(f"engine instance {known.id} still has objects of tenants that have left it")


def _settled(fleet: Fleet) -> Fleet:
    """With each instance in the state that follows from what is on it."""
    for row in tuple(fleet.instances.values()):
        state = _state_of(row, fleet.holding(row.id))
        if state != row.state:
            fleet = fleet.with_instance(replace(row, state=state))
    return fleet


def _state_of(row: EngineInstanceRow, held: Holding) -> InstanceState:
    """One that is to be retired is drained once no tenant is left on it; one that has no room for more is full."""
    if row.is_leaving:
        return "draining" if held.tenants else "drained"
    if row.state == "accepting" and held.deployments >= row.capacity:
        return "full"
    if row.state == "full" and held.deployments < row.capacity * ROOM_AGAIN:
        return "accepting"
    return row.state


def _record(order: FleetOrder, decision: Decision, now: datetime) -> FleetOrderRecord:
    given = order.order
    return FleetOrderRecord(
        id=order.id,
        kind=type(given).__name__,
        subject=given.id,
        arguments=canonical(asdict(given)),
        actor=order.actor,
        outcome=decision.outcome,
        message=decision.message,
        ordered_at=order.ordered_at,
        decided_at=now,
    )
