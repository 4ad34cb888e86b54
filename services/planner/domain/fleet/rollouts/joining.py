"""Which instances of a ring a rollout moves tenants from, and to: step 1, and instances that join later. Pure.

Until the first tenant moves, the old and new instances are read from the ring at each look, and the rollout waits until
the new ones have room for all that the old ones carry. Then the ids of both are stored, with the figures of the old
ones so far. An instance that joins after that is added to the old or to the new ones, and stays there. The rollout
(``rollout.py``) calls this at each look.
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
    """Step 1: it ends when there is room for all tenants, and when there are enough figures of the old instances."""
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
    """The rollout with the instances that have joined its ring since the first tenant moved.

    Each is an old or a new one from then on. An instance of another release is an old one if it joins before step 4:
    its tenants pass the stages, too, and a ring that goes back needs its room. It has its turn at step 5 if it joins
    later, if nobody knows what it runs, or if its cell has no new instance: step 5 waits for room for its tenants.
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
    """The fleet with the ring's pools adding instances of the rollout's release from now on."""
    for pool in tuple(fleet.pools.values()):
        if pool.ring == rollout.ring:
            fleet = fleet.with_pool(pool.with_release(rollout.release))
    return fleet
