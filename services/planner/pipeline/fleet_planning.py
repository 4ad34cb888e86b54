"""What a batch changes of the fleet itself: operators' orders, what is due, and what agents tell of their instances.

Called by ``batch_planning``, first of all: tenants are placed on what this leaves. What is due is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol
from uuid import UUID

from services.common.messages import FleetOrder
from services.planner.domain.changes import Changes
from services.planner.domain.events import ClusterTopic, Event, FleetDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import LoadedTenants
from services.planner.domain.fleet.orders import (
    ORDERS_OF_A_TENANT,
    ORDERS_THAT_CLOSE,
    carry_out_orders,
    decide_orders,
    is_of_all_tenants,
    settle_fleet,
)
from services.planner.domain.fleet.pools.pool_rows import Burdens
from services.planner.domain.fleet.pools.scaling import instances_rearranged, reason_to_hold, scale
from services.planner.domain.fleet.remediation.evacuation import EVACUATED_WITHIN, RETURNED_WITHIN
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.remedy_orders import (
    decide_remedies,
    decide_told,
    is_of_remedy,
    may_evacuate,
    replaced_instances,
)
from services.planner.domain.fleet.reports.health import decide_health, is_of_health
from services.planner.domain.fleet.reports.installations import is_of_installation
from services.planner.domain.fleet.reports.orphans import decide_orphans, instance_of
from services.planner.domain.fleet.rollouts.rollout_rows import SENDING
from services.planner.domain.fleet.rows import InstanceHealth, Move
from services.planner.domain.fleet.view import FleetView
from services.planner.domain.policy import Policy
from services.planner.rows.fleet import KeptOrphans
from services.planner.rows.tenants import TenantName


class FleetDatabase(Protocol):
    """What is asked about the fleet."""

    @property
    def fleet(self) -> FleetView:
        """Engine instances, and what they carry, as measured last."""

    def find_kept_orphans(self, instances: Collection[str]) -> Mapping[str, KeptOrphans]:
        """What agents of these instances keep, as they told last."""

    def find_engine_health(self, instances: Collection[str]) -> Mapping[str, InstanceHealth]:
        """How these instances are, as agents told last."""

    def load_fleet_rows(
        self, orders: Collection[UUID], closing: Collection[str], tenants: Collection[TenantName]
    ) -> Fleet:
        """All rows of the fleet, those of ``tenants``, and which of these orders are decided; nothing is counted.

        Without :meth:`with_kept_rows`. No tenant comes to who is ``closing``.
        """

    def lock_moves(self, moves: Collection[Move]) -> bool:
        """Keep others from taking steps of ``moves`` until this is written; whether each is as it was read."""

    def with_kept_rows(self, fleet: Fleet) -> Fleet:
        """``fleet`` with retired instances, and what operators have assigned."""

    def load_holdings(self, instances: Collection[str]) -> Mapping[str, Holding]:
        """What is on each of these instances."""

    def load_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        """Tenants that are current and on one of these instances; not what these hold for them."""

    def load_measured_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        """Likewise, with what these hold for them."""

    def load_burdens(self, now: datetime) -> Burdens:
        """Overloaded instances, and the tenants that were moved of late."""

    def find_leaving(self) -> Collection[str]:
        """Ids of instances that pools give up, and that no tenant is on."""

    def load_all_tenants(self) -> LoadedTenants:
        """All tenants that are current, with what their instances hold for them."""

    def count_returned_moves(self, since: datetime) -> Mapping[tuple[UUID, str], int]:
        """By tenant and target, how many moves went back since then because a step took too long."""

    def load_evacuations(self, since: datetime, now: datetime) -> Mapping[TenantName, frozenset[str]]:
        """By tenant, instances that it was evacuated from since then for a reason that a tenant can cause."""

    def load_remediations(self) -> Mapping[str, Remediation]:
        """What was done for instances that are ill or have been, by their ids."""


def plan_fleet(
    events: Sequence[Event],
    database: FleetDatabase,
    policy: Policy,
    now: datetime,
) -> list[Changes]:
    """What follows from those of ``events`` that are about the fleet as a whole."""
    messages = [event.message for event in events]
    planned = []
    if any(isinstance(message, FleetOrder | FleetDue) for message in messages):
        orders = [message for message in messages if isinstance(message, FleetOrder)]
        is_of_states = any(isinstance(message, FleetDue) and message.is_of_states for message in messages)
        topics = {each.message.id: each.cluster_topics for each in events if isinstance(each.message, FleetOrder)}
        ordered = partial(_ordered, orders, topics, database, policy, now, is_of_states=is_of_states)
        planned.append(_decided(ordered, database))
    if any(isinstance(message, RemediesDue) for message in messages):
        planned.append(_decided(partial(_remedied, database, policy, now), database))
    if any(isinstance(message, ScalingDue) for message in messages):
        planned.append(_decided(partial(_scaled, database, policy, now), database))
    return planned


def _decided(decide: Callable[[], tuple[Fleet, Changes]], database: FleetDatabase) -> Changes:
    """What follows from the fleet, where each move that changes is one that nobody else takes a step of any more.

    Those alone are locked: tenants' planners go on with thousands of others meanwhile. If one of them has taken a step
    since the fleet was read, that is read and decided again, with these moves as they are by now.
    """
    while True:
        fleet, changes = decide()
        known = {move.id: move for move in fleet.moves.values()}
        changed = [known[move.id] for move in changes.moves_ordered if move.id in known]
        if not changed or database.lock_moves(changed):
            return changes


def plan_reports(events: Sequence[Event], database: FleetDatabase, policy: Policy, now: datetime) -> list[Changes]:
    """What follows from ``events`` that are each about an instance, and none of its objects."""
    kept = [event for event in events if not (is_of_health(event) or is_of_remedy(event) or is_of_installation(event))]
    return [
        _orphans(kept, database, now),
        _health([event for event in events if is_of_health(event)], database, policy, now),
        decide_told(event for event in events if is_of_remedy(event)),
    ]


def _ordered(
    orders: Sequence[FleetOrder],
    topics: Mapping[UUID, Sequence[ClusterTopic]],
    database: FleetDatabase,
    policy: Policy,
    now: datetime,
    *,
    is_of_states: bool,
) -> tuple[Fleet, Changes]:
    """What becomes of operators' orders, of states of instances, of moves, and of the rollout that is due.

    An order may be about whatever there is. Without one only what is looked at is read.
    """
    closing = {each.order.id for each in orders if isinstance(each.order, ORDERS_THAT_CLOSE)}
    named = {each.order.tenant for each in orders if isinstance(each.order, ORDERS_OF_A_TENANT)}
    fleet = database.load_fleet_rows([each.id for each in orders], closing, named)
    if orders or (fleet.rollout is not None and fleet.rollout.is_due(now)):
        fleet = database.with_kept_rows(fleet)
    if orders or is_of_states:
        fleet = fleet.with_holdings(database.load_holdings([*fleet.instances]))
    if any(is_of_all_tenants(each.order) for each in orders):
        fleet = replace(fleet, tenants=database.load_all_tenants())
    decided = carry_out_orders(orders, fleet, now, topics)
    decided = replace(decided, fleet=_with_ring(decided.fleet, database, now))
    return fleet, settle_fleet(decided, now, policy)


def _with_ring(fleet: Fleet, database: FleetDatabase, now: datetime) -> Fleet:
    """With the tenants of the rollout's ring, their moves that came back, and what its instances carry, if it is due.

    Asked after orders have been carried out: to resume and to abort one makes it due.
    """
    rollout = fleet.rollout
    if rollout is None or not rollout.is_due(now):
        return fleet
    ring = [row.id for row in fleet.instances.values() if row.ring == rollout.ring]
    fleet = fleet.with_holdings(database.load_holdings([each for each in ring if each in fleet.uncounted]))
    if rollout.step in SENDING:
        fleet = replace(fleet, returned=database.count_returned_moves(now - RETURNED_WITHIN))
    tenants = database.load_tenants_on(ring).merged_with(fleet.tenants)
    return replace(fleet, tenants=tenants, load=database.fleet.load)


def _remedied(database: FleetDatabase, policy: Policy, now: datetime) -> tuple[Fleet, Changes]:
    """What is done for instances that are ill.

    Whether tenants can leave one follows from them and from their moves together: while one is evacuated, no planner
    takes a step of any move between that these are read and those.
    """
    remediations = database.load_remediations()
    replaced = replaced_instances(remediations.values())
    fleet = database.load_fleet_rows((), replaced, ())
    is_evacuated = may_evacuate(remediations.values(), fleet)
    if is_evacuated and not database.lock_moves([*fleet.moves.values()]):
        fleet = database.load_fleet_rows((), replaced, ())
    fleet = database.with_kept_rows(fleet)
    fleet = fleet.with_holdings(database.load_holdings([*fleet.instances] if is_evacuated else replaced))
    if is_evacuated:
        returned = database.count_returned_moves(now - RETURNED_WITHIN)
        evacuations = database.load_evacuations(now - EVACUATED_WITHIN, now)
        fleet = replace(fleet, tenants=database.load_all_tenants(), returned=returned, evacuations=evacuations)
    return fleet, decide_remedies(fleet, remediations, now, policy.remedies)


def _scaled(database: FleetDatabase, policy: Policy, now: datetime) -> tuple[Fleet, Changes]:
    """What becomes of pools, and of instances that carry too much.

    What is on instances, and their tenants, are read of those alone among which some may move.
    """
    drained = database.find_leaving()
    fleet = database.with_kept_rows(database.load_fleet_rows((), drained, ()))
    burdens = database.load_burdens(now)
    fleet, held = replace(fleet, load=database.fleet.load), reason_to_hold(fleet)
    rearranged = instances_rearranged(fleet, burdens, now, held)
    fleet = fleet.with_holdings(database.load_holdings(rearranged.union(drained)))
    if rearranged:
        fleet = replace(fleet, tenants=database.load_measured_tenants_on(rearranged))
    if fleet.rollout is not None:  # it has a time of its own
        fleet = fleet.with_rollout(replace(fleet.rollout, due_at=None))
    scaling = scale(fleet, burdens, now, policy.scaling, held)
    decided = decide_orders(scaling.orders, fleet, now, policy)
    return fleet, decided._replace(
        engine_pools=scaling.pools,
        engine_overloads=scaling.overloads,
        engine_overloads_gone=scaling.overloads_gone,
    )


def _orphans(events: Sequence[Event], database: FleetDatabase, now: datetime) -> Changes:
    """What becomes of objects of instances that no row desires."""
    instances = {instance_of(event) for event in events}
    return decide_orphans(events, database.find_kept_orphans(instances), now) if events else Changes()


def _health(events: Sequence[Event], database: FleetDatabase, policy: Policy, now: datetime) -> Changes:
    """How instances are by what was told of them."""
    if not events:
        return Changes()
    instances = {instance_of(event) for event in events}
    return decide_health(events, database.find_engine_health(instances), now, policy.health_patience)
