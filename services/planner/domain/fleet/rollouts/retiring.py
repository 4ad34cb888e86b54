"""What becomes of a ring's old instances after its last stage: steps 4 and 5. Pure.

The old instances take no new tenants. When they are empty they are retired, and the next ring begins. From step 4 on
the ring does not go back. The rollout (``rollout.py``) calls this.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.assignment_orders import require_nobody_pinned
from services.planner.domain.fleet.rollouts.gates import DATA_PATIENCE
from services.planner.domain.fleet.rollouts.ring_health import find_illness, left_behind, occupied
from services.planner.domain.fleet.rollouts.ring_instances import drain_instances, ring_of, runs
from services.planner.domain.fleet.rollouts.ring_room import find_lacking
from services.planner.domain.fleet.rollouts.ring_tenants import (
    count_settled,
    in_order_drawn,
    may_leave,
    send_tenants,
    tenants_of,
)
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rollouts.transitions import enter_next_ring, enter_step, wait_or_end
from services.planner.domain.fleet.rows import Refused


def drain_old_instances(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 4: it ends when nothing is on the old instances; after a while, objects out of reach are left behind."""
    fleet = drain_instances(rollout.source_ids, fleet)
    tenants = tenants_of(rollout, fleet)
    late = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], rollout.source_ids, fleet)]
    fleet, rule = send_tenants(rollout, fleet, late, rollout.target_ids, now, len(late))
    counted = count_settled(rollout, fleet, now)
    left = occupied(rollout.source_ids, fleet)
    if not left or (counted.is_stalled(now) and left_behind(rollout, fleet).issuperset(left)):
        return fleet.with_rollout(enter_step(counted, "retiring", now))
    return wait_or_end(counted, f"something is on engine instance {left[0]} yet{rule and f': {rule}'}", fleet, now)


def retire_old_instances(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 5: it ends when the old instances are retired.

    If a tenant came to one of them in the last moment, step 4 follows again. None is retired while new instances are
    ill.
    """
    given_up = rollout.source_ids - left_behind(rollout, fleet)
    if occupied(given_up, fleet):
        return fleet.with_rollout(enter_step(rollout, "draining", now))
    if fleet.is_rebuilt:
        return wait_or_end(rollout, "the database is being rebuilt", fleet, now)
    leaving = [row for instance in sorted(given_up) if not (row := fleet.instances[instance]).is_retired]
    if leaving and (illness := find_illness(rollout, fleet, now, DATA_PATIENCE, ()).reason):
        return wait_or_end(rollout, illness, fleet, now)
    try:
        for row in leaving:
            require_nobody_pinned(row, fleet)
    except Refused as rule:
        return wait_or_end(rollout, str(rule), fleet, now)
    for row in leaving:
        fleet = fleet.with_instance(replace(row, state="retired", ordered_at=now))
    return _give_up_late(rollout, fleet, now)


def _give_up_late(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """The end of step 5: old instances that have joined the ring since step 4 have their turn at step 4 now.

    They do not begin at step 1: a gate has judged the ring's tenants on its new instances, and the ring does not go
    back from these to an instance that joined late and may be small.
    """
    joined = ring_of(rollout, rollout.ring, fleet)
    if lacking := find_lacking(joined, rollout, fleet):
        return wait_or_end(rollout, lacking, fleet, now)
    if joined.sources:
        late = {row.id for row in joined.sources}
        given_up = rollout.with_instances(late, rollout.target_ids - late)
        return fleet.with_rollout(enter_step(given_up, "draining", now))
    if coming := _joining_of_old(rollout, fleet):
        reason = f"engine instance {coming} is provisioning, and not of {rollout.release.in_words} as far as is known"
        return wait_or_end(rollout, reason, fleet, now)
    return fleet.with_rollout(enter_next_ring(rollout, now))


def _joining_of_old(rollout: Rollout, fleet: Fleet) -> str:
    """Id of an instance that will join the ring, and may be of another release; empty: there is none."""
    late = (
        row.id
        for row in fleet.instances.values()
        if row.ring == rollout.ring and row.state == "provisioning" and not runs(row, rollout, fleet)
    )
    return min(late, default="")
