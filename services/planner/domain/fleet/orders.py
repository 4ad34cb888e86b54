"""Decides on operators' orders about the fleet. Each is accepted, changes nothing, or breaks a rule, which is named.

Orders are decided in their order, by the planner that has their topic's one partition; what tenants are placed on is
read from the rows that this leaves. ``gitopsctl engines … --dry-run`` asks the same rules of what the database shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from services.common.json_values import canonical
from services.common.messages import (
    AbortRollout,
    AddEngineCluster,
    AddEngineInstance,
    AssignWorkspace,
    CancelMove,
    DedicateEngineInstance,
    DrainEngineCluster,
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    Order,
    PauseRollout,
    PinTenant,
    RebalanceFleet,
    RemoveEnginePool,
    ResumeRollout,
    RetireEngineCluster,
    RetireEngineInstance,
    SetEnginePool,
    StartRollout,
    UndrainEngineCluster,
    UndrainEngineInstance,
    UnpinTenant,
)
from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.audit import move_record, rollout_records, state_records
from services.planner.domain.changes import Changes
from services.planner.domain.fleet.cluster_orders import (
    add_cluster,
    change_cluster,
    is_drained_with_cluster,
    require_active,
)
from services.planner.domain.fleet.lost_instances import retire_lost
from services.planner.domain.fleet.moves.move_orders import cancel_move, held_by_rollout, move_tenant, settle_moves
from services.planner.domain.fleet.moves.rebalance_orders import rebalance_fleet
from services.planner.domain.fleet.order_validation import (
    known_cluster,
    known_instance,
    require_label,
    require_not_retired,
    require_one_of,
    require_version,
)
from services.planner.domain.fleet.placement.assignment_orders import (
    LEFT_OBJECTS,
    assign_workspace,
    dedicate_instance,
    pin_tenant,
    require_fit,
    require_nobody_pinned,
    require_served,
    unpin_tenant,
)
from services.planner.domain.fleet.placement.assignments import PinKey, PlacementRules
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY, change_pool, without_leaving
from services.planner.domain.fleet.pools.provisioning import settle_provisioning
from services.planner.domain.fleet.rollouts.ring_room import missing_instances
from services.planner.domain.fleet.rollouts.rollout import settle_rollout
from services.planner.domain.fleet.rollouts.rollout_orders import change_rollout
from services.planner.domain.fleet.rollouts.rollout_rows import rings_affected
from services.planner.domain.fleet.rows import (
    CLASSES,
    RINGS,
    ROOM_AGAIN,
    EngineInstanceRow,
    Fleet,
    FleetOrderRecord,
    Holding,
    InstanceState,
    Move,
    Outcome,
    Refused,
)

ADDED_AS = ("engine_cluster", "namespace", "engine", "engine_class", "dedicated_to", "ring", "capacity")
"""What an instance was added with: the order and the row have it under the same names."""
INSTALLED_AS = ("wanted_version", "profile")
"""Likewise, of one that is installed by us; the row has no value where the order has an empty one."""
DEDICATED_AS = ("engine_class", "dedicated_to")
"""Likewise, what an order to dedicate it changes."""
ORDERED_STATES: Mapping[type, InstanceState] = {
    DrainEngineInstance: "draining",
    UndrainEngineInstance: "accepting",
    RetireEngineInstance: "retired",
}


ORDERS_OF_A_TENANT = (MoveTenant, CancelMove, PinTenant, UnpinTenant)
"""What is known of the tenant that they name has to be read."""
ORDERS_THAT_CLOSE = (RetireEngineInstance, DedicateEngineInstance)
"""No tenant is to come to the instance meanwhile."""
InstanceOrder = (
    AddEngineInstance | DrainEngineInstance | UndrainEngineInstance | RetireEngineInstance | DedicateEngineInstance
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one order."""

    outcome: Outcome
    message: str
    fleet: Fleet
    """As it is then."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What has become of the orders of a batch."""

    before: Fleet
    records: tuple[FleetOrderRecord, ...]
    fleet: Fleet
    """As the orders leave it; what follows from that is settled next."""


def decide_orders(
    orders: Iterable[FleetOrder],
    fleet: Fleet,
    now: datetime,
    moves_at_once: int = 1,
    provisioning_patience: timedelta = timedelta(minutes=15),
    rollout_interval: timedelta = timedelta(seconds=5),
) -> Changes:
    """What becomes of ``orders``, and what follows from them.

    ``fleet`` has the tenants of every ring that may be looked at: an order may have a rollout looked at.
    """
    decided = carry_out_orders(orders, fleet, now)
    return settle_fleet(decided, now, moves_at_once, provisioning_patience, rollout_interval)


def carry_out_orders(orders: Iterable[FleetOrder], fleet: Fleet, now: datetime) -> Decided:
    """What becomes of ``orders``, in their order.

    Args:
        orders: those of a batch.
        fleet: all rows before.
        now: when they are decided.
    """
    known, records, after = set(fleet.decided), [], fleet
    for order in orders:
        if order.id in known:
            continue
        known.add(order.id)
        decision = decide_order(order, after)
        records.append(record_of(order, decision, now))
        after = decision.fleet
    return Decided(fleet, tuple(records), after)


def settle_fleet(
    decided: Decided, now: datetime, moves_at_once: int, provisioning_patience: timedelta, rollout_interval: timedelta
) -> Changes:
    """What changes by ``decided``, by what is on instances, by the next step of the rollout, and by moves that begin.

    Args:
        decided: orders, and the fleet that they leave; with the tenants of the rollout's ring and what is on its
            instances, if that is due by then.
        now: the time.
        moves_at_once: of each instance.
        provisioning_patience: how long the installation of an instance may take.
        rollout_interval: how often a rollout is looked at.
    """
    fleet = decided.before
    after = settle_provisioning(decided.fleet, now, provisioning_patience)
    joined = carry_out_orders(missing_instances(after, now), after, now)
    refusal = next((each.message for each in joined.records if each.outcome == "refused"), "")
    after = settle_rollout(joined.fleet, now, rollout_interval, refusal)
    after = settle_moves(_settled(after), now, moves_at_once)
    moves = tuple(move for move in after.moves.values() if move != fleet.moves.get(move.tenant_id))
    return Changes(
        engine_clusters=tuple(row for row in after.clusters.values() if row != fleet.clusters.get(row.id)),
        engine_instances=tuple(row for row in after.instances.values() if row != fleet.instances.get(row.id)),
        **_assigned(fleet.rules, after.rules),
        engine_pools=tuple(row for row in after.pools.values() if row != fleet.pools.get(row.key)),
        engine_pools_gone=tuple(row for row in fleet.pools.values() if row.key not in after.pools),
        fleet_orders=(*decided.records, *(each for each in joined.records if each.outcome == "accepted")),
        moves_ordered=moves,
        rollouts=(after.rollout,) if after.rollout is not None and after.rollout != fleet.rollout else (),
        rings_affected=rings_affected(fleet.rollout, after.rollout),
        audit_records=(
            *(move_record(move) for move in moves if _is_new_step(move, fleet)),
            *rollout_records(after.rollout, fleet.rollout, now),
            *state_records(after.instances, decided.fleet.instances, now),
        ),
    )


def _assigned(before: PlacementRules, after: PlacementRules) -> dict[str, tuple[Any, ...]]:
    """Rows that are new or others than before, and keys of those that are gone."""
    if after is before:
        return {}
    return {
        "assignments": tuple(row for key, row in after.assignments.items() if row != before.assignments.get(key)),
        "assignments_gone": tuple(key for key in before.assignments if key not in after.assignments),
        "pins": tuple(row for key, row in after.pins.items() if row != before.pins.get(key)),
        "pins_gone": tuple(PinKey(*key) for key in before.pins if key not in after.pins),
    }


def _is_new_step(move: Move, fleet: Fleet) -> bool:
    before = fleet.moves.get(move.tenant_id)
    return before is None or before.step != move.step


def is_of_all_tenants(order: Order) -> bool:
    """Whether what is known of all tenants has to be read for it."""
    match order:
        case RebalanceFleet() | DedicateEngineInstance() | RetireEngineInstance(is_lost=True):
            return True
        case _:
            return False


def decide_order(order: FleetOrder, fleet: Fleet) -> Decision:
    """What becomes of one order."""
    try:
        message, after = _carried_out(order, fleet)
    except Refused as rule:
        return Decision("refused", str(rule), fleet)
    return Decision("unchanged" if after is fleet else "accepted", message, after)


def _carried_out(order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:  # noqa: PLR0911 - one for each sort of order
    """What is told of it, and the fleet afterwards: the very same if nothing has changed. Raises Refused."""
    given, at = order.order, order.ordered_at
    match given:
        case AddEngineCluster():
            return add_cluster(given, fleet, at)
        case DrainEngineCluster() | UndrainEngineCluster() | RetireEngineCluster():
            return change_cluster(given, fleet, at)
        case SetEnginePool() | RemoveEnginePool():
            return change_pool(given, fleet, at)
        case MoveTenant() | CancelMove() | RebalanceFleet() | PinTenant() | UnpinTenant():
            return _move_tenants(given, order, fleet)
        case AssignWorkspace():
            return assign_workspace(given, fleet, at)
        case StartRollout() | PauseRollout() | ResumeRollout() | AbortRollout():
            return change_rollout(given, order, fleet)
        case _:
            return _change_instance(given, fleet, at)


def _change_instance(given: InstanceOrder, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    known = fleet.instances.get(given.id)
    if known is not None and at <= known.ordered_at:
        return f"a newer order, of {known.ordered_at.isoformat()}, has changed the instance", fleet
    if isinstance(given, AddEngineInstance):
        return _add_instance(given, fleet, at)
    known = known_instance(given.id, fleet)
    if isinstance(given, DedicateEngineInstance):
        return dedicate_instance(given, known, fleet, at)
    if isinstance(given, RetireEngineInstance) and given.is_lost:
        return retire_lost(known, fleet, at)
    return _in_state(known, ORDERED_STATES[type(given)], fleet, at)


def _move_tenants(
    given: MoveTenant | CancelMove | RebalanceFleet | PinTenant | UnpinTenant, order: FleetOrder, fleet: Fleet
) -> tuple[str, Fleet]:
    match given:
        case PinTenant():
            return pin_tenant(given, fleet, order.ordered_at)
        case UnpinTenant():
            return unpin_tenant(given, fleet)
        case MoveTenant():
            return move_tenant(given, order, fleet)
        case CancelMove():
            return cancel_move(given, fleet)
        case RebalanceFleet():
            return rebalance_fleet(order, fleet)


def _add_instance(added: AddEngineInstance, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    known = fleet.instances.get(added.id)
    if known is not None:
        _require_same(added, known)
        return "it is known", fleet
    _require_valid(added, fleet)
    cluster = known_cluster(added.engine_cluster, fleet)
    require_active(cluster.id, fleet)
    _require_free(added, fleet)
    named = {name: getattr(added, name) for name in ADDED_AS}
    row = EngineInstanceRow(
        id=added.id,
        region=cluster.region,
        state="provisioning" if added.wanted_version else "accepting",
        created_at=at,
        ordered_at=at,
        wanted_version=added.wanted_version or None,
        profile=added.profile or None,
        **named,
    )
    require_fit(row, fleet)
    told = f"it is installed first: 'gitopsctl engines show {row.id}' shows how far that is" if row.is_unready else ""
    return told, fleet.with_instance(row)


def _require_same(added: AddEngineInstance, known: EngineInstanceRow) -> None:
    if known.is_retired:
        raise Refused(f"engine instance {known.id} is retired, and its id is not given out again: give another")
    for name in (*ADDED_AS, *INSTALLED_AS):
        before, wanted = getattr(known, name) or "", getattr(added, name)
        if before != wanted:
            raise Refused(
                f"{name.replace('_', ' ')} of engine instance {known.id} is '{before}', not '{wanted}'"
                f"{_remedy(name, known)}"
            )


def _remedy(name: str, known: EngineInstanceRow) -> str:
    """What to do if an instance was added with another value of ``name``."""
    if name in DEDICATED_AS:
        return f": 'gitopsctl engines dedicate {known.id}' changes that"
    return f", for good: add another one, and 'gitopsctl engines drain {known.id}' if that takes its place"


def _require_valid(added: AddEngineInstance, fleet: Fleet) -> None:
    require_label("an engine instance's id", added.id)
    require_label("a namespace", added.namespace)
    require_one_of("engine", added.engine, fleet.engines)
    require_one_of("class", added.engine_class, CLASSES)
    require_one_of("ring", added.ring, RINGS)
    if added.engine_class == "dedicated" and not added.dedicated_to:
        raise Refused("an engine instance of class dedicated needs a workspace: give it as --dedicated-to")
    if added.engine_class == "shared" and added.dedicated_to:
        raise Refused(
            "an engine instance of class shared is dedicated to no workspace: give '--class dedicated' with "
            f"'--dedicated-to {added.dedicated_to[:MAX_LABEL]}', or neither"
        )
    if not 1 <= added.capacity <= MOST_CAPACITY:
        raise Refused(f"a capacity is between 1 and {MOST_CAPACITY} Applications, not {added.capacity}")
    _require_installable(added, fleet)


def _require_installable(added: AddEngineInstance, fleet: Fleet) -> None:
    if added.profile and not added.wanted_version:
        raise Refused("a profile is of an instance that is installed with a version: add '--version'")
    if added.wanted_version:
        require_version(added.engine, added.wanted_version, fleet)
    if added.profile:
        require_label("a profile", added.profile)


def _require_free(added: AddEngineInstance, fleet: Fleet) -> None:
    """No other instance has its namespace: two would undo what each other does there."""
    place = (added.engine_cluster, added.namespace)
    for other in fleet.instances.values():
        if (other.engine_cluster, other.namespace) == place and not other.is_retired:
            raise Refused(
                f"namespace {added.namespace} of engine cluster {added.engine_cluster} is engine instance {other.id}'s"
                ": give another --namespace"
            )


def _in_state(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """To another state."""
    if wanted == "draining" and known.is_leaving:
        after = without_leaving(known.id, fleet)
        if is_drained_with_cluster(known, fleet):
            after = after.with_instance(replace(known, ordered_at=at))
        return f"it is {known.state}" if after is fleet else _next_order(known, wanted, fleet), after
    if known.state == wanted:
        return f"it is {known.state}", fleet
    require_not_retired(known)
    if known.is_unready and wanted != "retired":
        raise Refused(f"engine instance {known.id} is {known.state}: only 'gitopsctl engines retire' gives it up")
    if wanted == "accepting":
        require_active(known.engine_cluster, fleet)
    after = fleet.with_instance(replace(known, state=wanted, ordered_at=at, due_at=None, state_message=None))
    if wanted == "retired":
        _require_unneeded(known, fleet)
        _require_empty(known, fleet)
        require_nobody_pinned(known, fleet)
        # Before there is any tenant a fleet may be made anew, in the namespaces that it has.
        require_served(fleet, after, are_others=_may_have_tenants(fleet))
    return _next_order(known, wanted, fleet), after


def _may_have_tenants(fleet: Fleet) -> bool:
    return bool(fleet.uncounted) or any(held.tenants for held in fleet.holdings.values())


def _next_order(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet) -> str:
    """What an operator has to order next, who gives an instance up; empty if nothing."""
    if wanted != "draining":
        return ""
    if tenants := fleet.holding(known.id).tenants:
        return f"its tenants stay on it ({tenants}) until 'gitopsctl engines rebalance' moves them"
    return f"no tenant is on it: 'gitopsctl engines retire {known.id}' gives it up"


def _require_unneeded(known: EngineInstanceRow, fleet: Fleet) -> None:
    """The tenants of a ring that is being rolled out may have to go back to one that is empty by now, and works."""
    if known.id in held_by_rollout(fleet) and not (known.is_unready or fleet.is_out_of_reach(known.id)):
        raise Refused(
            f"ring {known.ring} is being rolled out, which gives its old instances up when all is well: "
            "'gitopsctl engines rollout status' shows how far that is"
        )


def _require_empty(known: EngineInstanceRow, fleet: Fleet) -> None:
    if fleet.is_rebuilt:
        raise Refused(
            f"the database is being rebuilt: what engine instance {known.id} holds besides its rows is known when "
            "'gitopsctl rebuild sweep' has ended that"
        )
    held = fleet.holding(known.id)
    moves = [move for move in fleet.moves.values() if not move.is_over and known.id in (move.source, move.target)]
    if held.tenants > len(moves):
        raise Refused(
            f"engine instance {known.id} still has tenants: {held.tenants}; 'gitopsctl engines drain {known.id}' and "
            "then 'gitopsctl engines rebalance' move them"
        )
    if moves:
        raise Refused(_named(moves, known))
    if held.objects:
        raise Refused(f"engine instance {known.id} {LEFT_OBJECTS}")


def _named(moves: Sequence[Move], known: EngineInstanceRow) -> str:
    """Moves that an instance takes part in; of those that wait until it is back, that they do."""
    fenced = [move for move in moves if (move.source, move.path) == (known.id, "fenced")]
    first = (fenced or moves)[0]
    told = (
        f"engine instance {known.id} takes part in moves: {len(moves)}, such as that of tenant "
        f"{first.workspace}/{first.namespace} from {first.source} to {first.target}: {first.step}"
    )
    return f"{told}; it has left, and {len(fenced)} of them wait until the instance can be reached" if fenced else told


def _settled(fleet: Fleet) -> Fleet:
    """With each instance in the state that follows from what is on it, as far as that was counted."""
    for row in tuple(row for row in fleet.instances.values() if row.id not in fleet.uncounted):
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


def record_of(order: FleetOrder, decision: Decision, now: datetime) -> FleetOrderRecord:
    """What is kept of an order that was decided."""
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
