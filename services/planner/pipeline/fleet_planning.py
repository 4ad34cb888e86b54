"""Plans the fleet itself: operators' orders, what is due, and reports about instances.

Called by ``batch_planning`` before it plans tenants: they are placed on the instances that this leaves. What is due is
a batch of its own. Each decision loads the parts of the fleet that its rules read, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

import psycopg

from services.common.errors import GitOpsError, Poison
from services.common.messages import FleetOrder
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import Failure, count_failure
from services.planner import SERVICE
from services.planner.database.fleet_reader import FleetReader
from services.planner.domain.changes import Changes
from services.planner.domain.events import ClusterTopic, Event, FleetDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.orders import (
    ORDERS_THAT_CLOSE,
    carry_out_orders,
    decide_orders,
    is_of_all_tenants,
    reconcile_fleet,
    tenants_of,
)
from services.planner.domain.fleet.pools.scaling import find_veto_of_moves, instances_rearranged, scale
from services.planner.domain.fleet.remediation.evacuation import EVACUATED_WITHIN, RETURNED_WITHIN
from services.planner.domain.fleet.remediation.remedy_orders import (
    apply_remedy_reports,
    decide_remedies,
    is_of_remedy,
    may_evacuate,
    replaced_instances,
)
from services.planner.domain.fleet.reports.health import decide_health, is_of_health
from services.planner.domain.fleet.reports.installations import is_of_installation
from services.planner.domain.fleet.reports.orphans import decide_orphans, instance_of
from services.planner.domain.fleet.rollouts.rollout_rows import SENDING
from services.planner.domain.policy import Policy

FleetDecision = Callable[[FleetReader, Policy, datetime], tuple[Fleet, Changes]]
"""Loads the parts of the fleet that it reads, and returns the fleet as it was loaded, with what follows from it."""


def plan_fleet(events: Sequence[Event], reader: FleetReader, policy: Policy, now: datetime) -> list[Changes]:
    """What follows from those of ``events`` that are about the fleet as a whole."""
    messages = [event.message for event in events]
    orders = [message for message in messages if isinstance(message, FleetOrder)]
    looks = [message for message in messages if isinstance(message, FleetDue)]
    decisions: list[FleetDecision] = []
    if orders or looks:
        load = partial(_load_for_orders, orders, policy) if orders else partial(_load_for_look, looks, now)
        topics = {event.message.id: event.cluster_topics for event in events if isinstance(event.message, FleetOrder)}
        decisions.append(partial(_decide_orders, load, orders, topics))
    if any(isinstance(message, RemediesDue) for message in messages):
        decisions.append(_decide_remedies)
    if any(isinstance(message, ScalingDue) for message in messages):
        decisions.append(_decide_scaling)
    return [_decide(decision, reader, policy, now) for decision in decisions]


def _decide(decision: FleetDecision, reader: FleetReader, policy: Policy, now: datetime) -> Changes:
    """What follows from the fleet, where each move that changes is one that nobody else takes a step of any more.

    Those alone are locked: tenants' planners go on with thousands of others meanwhile. If one of them has taken a step
    since the fleet was read, that is read and decided again, with these moves as they are by now.

    Raises Poison if a rule fails: the order becomes a dead letter, or what is due is due again, and the planner goes on
    with its tenants.
    """
    while True:
        try:
            fleet, changes = decision(reader, policy, now)
        except (GitOpsError, psycopg.Error):
            raise
        except Exception as defect:
            count_failure(SERVICE, Failure.DEFECT, "fleet")
            raise Poison(f"a rule of the fleet failed: {type(defect).__name__} at {raised_at(defect)}") from defect
        known = {move.id: move for move in fleet.moves.values()}
        changed = [known[move.id] for move in changes.moves_ordered if move.id in known]
        if not changed or reader.lock_moves(changed):
            return changes


def plan_reports(events: Sequence[Event], reader: FleetReader, policy: Policy, now: datetime) -> list[Changes]:
    """What follows from ``events`` that are each about an instance, and none of its objects."""
    others = [
        event for event in events if not (is_of_health(event) or is_of_remedy(event) or is_of_installation(event))
    ]
    return [
        _orphans(others, reader, now),
        _health([event for event in events if is_of_health(event)], reader, policy, now),
        apply_remedy_reports(event for event in events if is_of_remedy(event)),
    ]


def _load_for_orders(orders: Sequence[FleetOrder], policy: Policy, reader: FleetReader) -> Fleet:
    """All rows, what is on all instances, and the tenants that an order may be about.

    Without what instances carry, and without moves that went back.
    """
    closing = {each.order.id for each in orders if isinstance(each.order, ORDERS_THAT_CLOSE)}
    named = {tenant for each in orders for tenant in tenants_of(each.order, policy)}
    rows = reader.load_fleet_rows([each.id for each in orders], closing, named)
    fleet = _with_holdings_of_all(reader.load_retired_and_assignments(rows), reader)
    if any(is_of_all_tenants(each.order) for each in orders):
        fleet = replace(fleet, tenants=reader.load_all_tenants())
    return replace(fleet, local_workspaces=policy.local_workspaces)


def _load_for_look(looks: Sequence[FleetDue], now: datetime, reader: FleetReader) -> Fleet:
    """All rows of the fleet; what is on all instances, if their states are due; retired ones, if the rollout is."""
    fleet = reader.load_fleet_rows((), (), ())
    if fleet.rollout is not None and fleet.rollout.is_due(now):
        fleet = reader.load_retired_and_assignments(fleet)
    return _with_holdings_of_all(fleet, reader) if any(each.is_of_states for each in looks) else fleet


def _with_holdings_of_all(fleet: Fleet, reader: FleetReader) -> Fleet:
    return fleet.with_holdings(reader.load_holdings([*fleet.instances]))


def _decide_orders(
    load: Callable[[FleetReader], Fleet],
    orders: Sequence[FleetOrder],
    topics: Mapping[UUID, Sequence[ClusterTopic]],
    reader: FleetReader,
    policy: Policy,
    now: datetime,
) -> tuple[Fleet, Changes]:
    """What becomes of operators' orders, and of states of instances, of moves, and of the rollout, if these are due."""
    fleet = load(reader)
    decided = carry_out_orders(orders, fleet, now, topics)
    after = _with_ring(decided.fleet, reader, now)
    # A namespace that an operator names may be a tenant's. Provisioners take no existing one that a planner names.
    decided = replace(decided, fleet=replace(after, local_workspaces={}))
    return fleet, reconcile_fleet(decided, now, policy)


def _with_ring(fleet: Fleet, reader: FleetReader, now: datetime) -> Fleet:
    """With the tenants of the rollout's ring, their moves that went back, and loads, if the rollout is due.

    Called after orders are carried out: one that resumes or aborts a rollout makes it due.
    """
    rollout = fleet.rollout
    if rollout is None or not rollout.is_due(now):
        return fleet
    ring = [row.id for row in fleet.instances.values() if row.ring == rollout.ring]
    fleet = fleet.with_holdings(reader.load_holdings([each for each in ring if each in fleet.uncounted]))
    if rollout.step in SENDING:
        fleet = replace(fleet, returned=reader.count_returned_moves(now - RETURNED_WITHIN))
    tenants = reader.load_tenants_on(ring).merged_with(fleet.tenants)
    return replace(fleet, tenants=tenants, load=reader.measured_load)


def _decide_remedies(reader: FleetReader, policy: Policy, now: datetime) -> tuple[Fleet, Changes]:
    """Remedies for instances that are ill.

    Whether tenants can leave an instance follows from them and from their moves together. So while one is evacuated
    all moves are locked: no planner takes a step of any between the two reads.
    """
    remediations = reader.load_remediations()
    replaced = replaced_instances(remediations.values())
    fleet = reader.load_fleet_rows((), replaced, ())
    is_evacuated = may_evacuate(remediations.values(), fleet)
    if is_evacuated and not reader.lock_moves([*fleet.moves.values()]):
        fleet = reader.load_fleet_rows((), replaced, ())
    fleet = reader.load_retired_and_assignments(fleet)
    fleet = fleet.with_holdings(reader.load_holdings([*fleet.instances] if is_evacuated else replaced))
    if is_evacuated:
        returned = reader.count_returned_moves(now - RETURNED_WITHIN)
        evacuations = reader.load_evacuations(now - EVACUATED_WITHIN, now)
        fleet = replace(fleet, tenants=reader.load_all_tenants(), returned=returned, evacuations=evacuations)
    return fleet, decide_remedies(fleet, remediations, now, policy.remedies)


def _decide_scaling(reader: FleetReader, policy: Policy, now: datetime) -> tuple[Fleet, Changes]:
    """Resizes pools, and relieves instances that carry too much.

    Tenants, and what else is on instances, are loaded only of instances whose tenants may move.
    """
    drained = reader.find_leaving()
    fleet = reader.load_retired_and_assignments(reader.load_fleet_rows((), drained, ()))
    burdens = reader.load_burdens(now)
    fleet, veto = replace(fleet, load=reader.measured_load), find_veto_of_moves(fleet)
    rearranged = instances_rearranged(fleet, burdens, now, veto)
    fleet = fleet.with_holdings(reader.load_holdings(rearranged.union(drained)))
    if rearranged:
        fleet = replace(fleet, tenants=reader.load_measured_tenants_on(rearranged))
    if fleet.rollout is not None:  # it has a time of its own
        fleet = fleet.with_rollout(replace(fleet.rollout, due_at=None))
    scaling = scale(fleet, burdens, now, policy.scaling, veto)
    decided = decide_orders(scaling.orders, fleet, now, policy)
    return fleet, decided._replace(
        engine_pools=scaling.pools,
        engine_overloads=scaling.overloads,
        engine_overloads_gone=scaling.overloads_gone,
    )


def _orphans(events: Sequence[Event], reader: FleetReader, now: datetime) -> Changes:
    """Objects of instances that no row desires, by reports and approvals."""
    instances = {instance_of(event) for event in events}
    return decide_orphans(events, reader.load_kept_orphans(instances), now) if events else Changes()


def _health(events: Sequence[Event], reader: FleetReader, policy: Policy, now: datetime) -> Changes:
    """The health of instances, by reports."""
    if not events:
        return Changes()
    instances = {instance_of(event) for event in events}
    return decide_health(events, reader.load_engine_health(instances), now, policy.health_patience)
