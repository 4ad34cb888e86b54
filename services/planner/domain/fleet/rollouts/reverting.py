"""How a ring goes back to its old instances: the new ones are drained, and their tenants move. Pure.

A stage that fails (``stages.py``) or an order to abort (``rollout_orders.py``) begins this. The rollout is over when no
tenant that could go back is on new instances, or on its way. The rollout (``rollout.py``) calls this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.rollouts.ring_health import without_old, without_way_back
from services.planner.domain.fleet.rollouts.ring_instances import drain_instances
from services.planner.domain.fleet.rollouts.ring_tenants import (
    in_order_drawn,
    is_on,
    may_leave,
    send_tenants,
    tenants_of,
)
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rollouts.transitions import end_rollout, wait_or_end
from services.planner.domain.fleet.rows import EngineInstanceRow


def revert_ring(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """The step ``reverting``: it ends when all tenants that can go back have done so.

    Moves to new instances are cancelled if they still can be, because their targets drain. The others end, and their
    tenants go back after that. A tenant stays if it is pinned, or if no old instance can carry it; the reason names the
    rule. The step does not wait for tenants of a cell that has no old instance, up or down.

    While all old instances of a cell are down, its new instances take tenants again, because tenants of the old ones
    have to go somewhere. This does not apply to a new instance that an operator has given an order about since the
    rollout was ordered: the operator may have drained it.
    """
    targets = rollout.target_ids
    staying = without_way_back(rollout, fleet)
    fleet = _undrain_instances(
        (each for each in staying if not _is_changed_by_operator(fleet.instances[each], rollout)),
        drain_instances(targets - staying, fleet),
    )
    tenants = tenants_of(rollout, fleet)
    returning = targets - without_old(rollout, fleet)
    back = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], returning, fleet)]
    fleet, rule = send_tenants(rollout, fleet, back, rollout.source_ids, now, len(back))
    counted = rollout.with_counts(len(tenants), sum(is_on(each, returning) for each in tenants.values()), now)
    moving = sum(is_moving(each, fleet) and not fleet.moves[each.id].is_fencing for each in tenants.values())
    if not counted.moved and not moving:
        return fleet.with_rollout(end_rollout(counted, now))
    left = f"tenants on new instances: {counted.moved}, on their way: {moving}{rule and f'; {rule}'}"
    return wait_or_end(counted, left, fleet, now)


def _undrain_instances(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """The fleet with these instances accepting tenants again, unless their clusters are draining."""
    for instance in sorted(instances):
        row = fleet.instances[instance]
        if row.is_leaving and fleet.clusters[row.engine_cluster].state == "active":
            fleet = fleet.with_instance(replace(row, state="accepting"))
    return fleet


def _is_changed_by_operator(row: EngineInstanceRow, rollout: Rollout) -> bool:
    """Whether an operator has changed an instance, and not only added it, since the rollout was ordered."""
    return row.ordered_at > max(row.created_at, rollout.ordered_at)
