"""Which instances of a ring a rollout moves tenants from, and to: step 1, and whoever joins later. Pure.

Until the first tenant moves whoever joins the ring counts, and the rollout waits until the new ones can have all that
the old ones carry. Then both are written down, with how the old ones did so far. An instance that joins after that is
added to either, and stays that. Called by the rollout (``rollout.py``), at each look.
"""

from __future__ import annotations

from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.gates import DATA_PATIENCE, is_enough, measure_past
from services.planner.domain.fleet.rollouts.ring_instances import cell_of, ring_of
from services.planner.domain.fleet.rollouts.ring_room import find_lacking
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, REVERTIBLE, SENDING, Rollout
from services.planner.domain.fleet.rollouts.stages import enter_next_stage
from services.planner.domain.fleet.rollouts.transitions import enter_next_ring, wait_for


def provision_ring(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 1: it ends when there is room for all tenants, and enough is known of how the old instances did."""
    ring = ring_of(rollout, rollout.ring, fleet)
    past = measure_past(ring, rollout, fleet)
    is_told = is_enough(past) or now >= rollout.step_since + DATA_PATIENCE
    if lacking := find_lacking(ring, rollout, fleet):
        return wait_for(rollout, lacking, fleet)
    if not ring.sources:
        return set_release_of_pools(rollout, fleet).with_rollout(enter_next_ring(rollout, now))
    if any(fleet.holding(row.id).deployments for row in ring.sources) and not is_told:
        return wait_for(rollout, "too little is known of what the ring's instances did so far", fleet)
    settled = rollout.with_instances((row.id for row in ring.sources), (row.id for row in ring.targets))
    there = len(fleet.tenants.on(settled.target_ids))
    return fleet.with_rollout(enter_next_stage(settled.with_past(past, there), fleet, now))


def add_joined(rollout: Rollout, fleet: Fleet) -> Rollout:
    """With the instances that have joined its ring since the first tenant moved: each stays old, or new, from then on.

    They are old ones until step 4: their tenants pass the stages, too, and a ring that goes back needs their room.
    Those of which nobody sees what they run, those in whose cell no new one is, and those that join later have their
    turn at 5: that waits for what is to take their tenants.
    """
    if rollout.step not in {*REVERTIBLE, *SENDING}:
        return rollout
    ring, sources = ring_of(rollout, rollout.ring, fleet), rollout.source_ids
    if rollout.step not in FINAL:
        cells = {cell_of(row) for row in (*ring.targets, *(fleet.instances[each] for each in rollout.target_ids))}
        old = {row.id for row in ring.sources if fleet.version_of(row) and cell_of(row) in cells}
        sources |= old - rollout.target_ids
    return rollout.with_instances(sources, rollout.target_ids | ({row.id for row in ring.targets} - sources))


def set_release_of_pools(rollout: Rollout, fleet: Fleet) -> Fleet:
    """The fleet with pools that add instances of the release to the ring from now on."""
    for pool in tuple(fleet.pools.values()):
        if pool.ring == rollout.ring:
            fleet = fleet.with_pool(pool.with_release(rollout.release))
    return fleet
