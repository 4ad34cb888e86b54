"""Decides on operators' orders about the fleet. Each is accepted, changes nothing, or breaks a rule, which is named.

Orders are decided in their order, by the planner that has their topic's one partition; what tenants are placed on is
read from the rows that this leaves. ``gitopsctl engines … --dry-run`` asks the same rules of what the database shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from services.common.json_values import canonical
from services.common.messages import (
    AbortRollout,
    AddEngineCluster,
    AddEngineInstance,
    AssignWorkspace,
    CancelMove,
    DedicateEngineInstance,
    DrainEngineCluster,
    FleetOrder,
    MoveTenant,
    Order,
    PauseRollout,
    PinTenant,
    RebalanceFleet,
    RebalanceInstances,
    RemoveEnginePool,
    ResumeRollout,
    RetireEngineCluster,
    RetireEngineInstance,
    SetEnginePool,
    StartRollout,
    UndrainEngineCluster,
    UnpinTenant,
)
from services.planner.domain.audit import move_record, rollout_records, state_records
from services.planner.domain.changes import Changes
from services.planner.domain.events import ClusterTopic
from services.planner.domain.fleet.cluster_orders import add_cluster, change_cluster
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.instance_orders import change_instance, with_states
from services.planner.domain.fleet.moves.move_orders import begin_moves, cancel_move, move_tenant
from services.planner.domain.fleet.moves.rebalance_orders import rebalance_fleet, rebalance_instances
from services.planner.domain.fleet.placement.assignment_orders import assign_workspace, pin_tenant, unpin_tenant
from services.planner.domain.fleet.placement.assignments import PinKey, PlacementRules
from services.planner.domain.fleet.pools.pools import change_pool
from services.planner.domain.fleet.pools.readiness import decide_readiness
from services.planner.domain.fleet.rollouts.ring_room import missing_instances
from services.planner.domain.fleet.rollouts.rollout import advance_rollout
from services.planner.domain.fleet.rollouts.rollout_orders import change_rollout
from services.planner.domain.fleet.rollouts.rollout_rows import rings_affected
from services.planner.domain.fleet.rows import FleetOrderRecord, Move, Outcome, Refused
from services.planner.domain.policy import Policy
from services.planner.rows.tenants import TenantName

ORDERS_OF_A_TENANT = (MoveTenant, CancelMove, PinTenant, UnpinTenant)
"""What is known of the tenant that they name has to be read."""
ORDERS_THAT_CLOSE = (RetireEngineInstance, DedicateEngineInstance)
"""No tenant is to come to the instance meanwhile."""


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
    """As the orders leave it; what follows from that is decided next."""


def decide_orders(orders: Iterable[FleetOrder], fleet: Fleet, now: datetime, policy: Policy) -> Changes:
    """What becomes of ``orders``, and what follows from them.

    ``fleet`` has the tenants of every ring that may be looked at: an order may have a rollout looked at.
    """
    decided = carry_out_orders(orders, fleet, now)
    return reconcile_fleet(decided, now, policy)


def carry_out_orders(
    orders: Iterable[FleetOrder],
    fleet: Fleet,
    now: datetime,
    topics: Mapping[UUID, Sequence[ClusterTopic]] = MappingProxyType({}),
) -> Decided:
    """What becomes of ``orders``, in their order.

    Args:
        orders: those of a batch.
        fleet: all rows before.
        now: when they are decided.
        topics: of engine clusters that orders add, by the ids of these orders.
    """
    known, records, after = set(fleet.decided), [], fleet
    for order in orders:
        if order.id in known:
            continue
        known.add(order.id)
        decision = decide_order(order, after, topics.get(order.id, ()))
        records.append(record_of(order, decision, now))
        after = decision.fleet
    return Decided(fleet, tuple(records), after)


def reconcile_fleet(decided: Decided, now: datetime, policy: Policy) -> Changes:
    """What changes by ``decided``, by what is on instances, by the next step of the rollout, and by moves that begin.

    Args:
        decided: orders, and the fleet that they leave; with the tenants of the rollout's ring and what is on its
            instances, if that is due by then.
        now: the time.
        policy: how many tenants move at once, how long it may take until an instance that was added is ready, and how
            often a rollout is looked at.
    """
    fleet = decided.before
    after = decide_readiness(decided.fleet, now, policy.provisioning_patience)
    joined = carry_out_orders(missing_instances(after, now), after, now)
    refusal = next((each.message for each in joined.records if each.outcome == "refused"), "")
    after = advance_rollout(joined.fleet, now, policy.rollout_interval, refusal)
    after = begin_moves(with_states(after), now, policy.moves_at_once)
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


def tenants_of(order: Order, policy: Policy) -> Collection[TenantName]:
    """Tenants that an order may be about, whether or not there are any of these names.

    An instance is added to no namespace that a tenant has.
    """
    match order:
        case MoveTenant() | CancelMove() | PinTenant() | UnpinTenant():
            return (order.tenant,)
        case AddEngineInstance():
            return [(each, order.namespace) for each in policy.workspaces_in(order.engine_cluster)]
        case _:
            return ()


def is_of_all_tenants(order: Order) -> bool:
    """Whether what is known of all tenants has to be read for it."""
    match order:
        case RebalanceFleet() | RebalanceInstances() | DedicateEngineInstance() | RetireEngineInstance(is_lost=True):
            return True
        case _:
            return False


def decide_order(order: FleetOrder, fleet: Fleet, topics: Sequence[ClusterTopic] = ()) -> Decision:
    """What becomes of one order.

    Args:
        order: which.
        fleet: as it is.
        topics: of the engine cluster that it adds. ``gitopsctl`` has none: it tries an order before it makes them.
    """
    try:
        message, after = _carried_out(order, fleet, topics)
    except Refused as rule:
        return Decision("refused", str(rule), fleet)
    return Decision("unchanged" if after is fleet else "accepted", message, after)


def decide_own_order(order: Order, actor: str, fleet: Fleet, now: datetime) -> tuple[FleetOrder, Decision]:
    """An order that a planner gives by itself, and what becomes of it.

    The order's id is made of what it is about and of ``now``: when a batch is planned once more, it has the same.
    """
    identity = uuid5(NAMESPACE_OID, f"{type(order).__name__} {order.id} {now.isoformat()}")
    given = FleetOrder(identity, actor, now, order)
    return given, decide_order(given, fleet)


def _carried_out(  # noqa: PLR0911 - one for each sort of order
    order: FleetOrder, fleet: Fleet, topics: Sequence[ClusterTopic]
) -> tuple[str, Fleet]:
    """The message for operators, and the fleet afterwards: the very same if nothing has changed. Raises Refused."""
    given, at = order.order, order.ordered_at
    match given:
        case AddEngineCluster():
            return add_cluster(given, topics, fleet, at)
        case DrainEngineCluster() | UndrainEngineCluster() | RetireEngineCluster():
            return change_cluster(given, fleet, at)
        case SetEnginePool() | RemoveEnginePool():
            return change_pool(given, fleet, at)
        case MoveTenant() | CancelMove() | RebalanceFleet() | RebalanceInstances() | PinTenant() | UnpinTenant():
            return _move_tenants(given, order, fleet)
        case AssignWorkspace():
            return assign_workspace(given, fleet, at)
        case StartRollout() | PauseRollout() | ResumeRollout() | AbortRollout():
            return change_rollout(given, order, fleet)
        case _:
            return change_instance(given, fleet, at)


def _move_tenants(
    given: MoveTenant | CancelMove | RebalanceFleet | RebalanceInstances | PinTenant | UnpinTenant,
    order: FleetOrder,
    fleet: Fleet,
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
        case RebalanceInstances():
            return rebalance_instances(given, order, fleet)


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
