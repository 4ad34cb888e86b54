"""Brings a version to the fleet, ring by ring: the next step, from what is seen of the ring. Pure.

In each ring, in this order:

1. ``provisioning``: instances of the version join the ring, until they have room for all that its old ones carry. New
   instances that join later get tenants, too; instances of another version that join before 4 are old ones
   (``joining.py``).
2. ``moving``: some of the ring's tenants move to them: a few, then more, then all (``STAGES`` in ``stages.py``).
3. ``soaking``: the new instances are observed for a time, and judged (``gates.py``). Then step 2 follows with more
   tenants, or with the same number if too few are left on the new instances.
4. ``draining``: the old instances take no new tenants, and the tenants that came to them meanwhile move, too. From here
   on the ring's pools add instances of the version (``retiring.py``).
5. ``retiring``: the old instances are retired. If other old ones have joined the ring since 4, they have their turn at
   4, once there is room for what they carry. Otherwise the next ring begins.

Until 4 a ring can go back: ``reverting`` drains the new instances, and moves all tenants that the old ones can carry
back to them (``reverting.py``). A gate that fails, a new instance that is down or stays ill, or an order to abort
causes that, and then ends the rollout. From 4 on the ring keeps the new version, and an order to abort ends the rollout
after the ring. Each step is stored, and decided by what is seen. So it is safe to repeat: a move is ordered only for a
tenant that is not where it should be, and not on its way.

An instance that is lost does not keep a rollout from its end. The rollout waits for an old instance while tenants are
on it, and goes on without it when they have left it. A rollout that is to end does so when nothing has got on for an
hour, and says what it has left.

:func:`advance_rollout` is called at each look at the fleet. A step is a function from the row, the fleet and the time
to the fleet, with the row at the same step or at another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.joining import add_joined, provision_ring, set_release_of_pools
from services.planner.domain.fleet.rollouts.retiring import drain_old_instances, retire_old_instances
from services.planner.domain.fleet.rollouts.reverting import revert_ring
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, Rollout, RolloutStep
from services.planner.domain.fleet.rollouts.stages import fill_stage, soak_stage
from services.planner.domain.fleet.rollouts.transitions import enter_ring

NUMBERS: Mapping[RolloutStep, int] = {
    "ordered": 0,
    "provisioning": 1,
    "moving": 2,
    "soaking": 3,
    "draining": 4,
    "retiring": 5,
    "reverting": 6,
    "done": 7,
    "failed": 8,
    "aborted": 9,
}
"""As operators see them."""


def advance_rollout(fleet: Fleet, now: datetime, interval: timedelta, refusal: str = "") -> Fleet:
    """The fleet after the next step of the rollout that is under way, if that is due.

    Args:
        fleet: all rows, all tenants of the ring, what is on its instances, and the figures that the step asks for.
        now: the time.
        interval: when to look again.
        refusal: why no instance was added that the ring lacks; empty if none was asked for, or all were added.
    """
    before = fleet.rollout
    if before is None or not before.is_due(now):
        return fleet
    after = _STEPS[before.step](add_joined(before, fleet), fleet, now)
    rollout = after.rollout
    assert rollout is not None  # noqa: S101 - no step takes it away
    if refusal and rollout.step == before.step:
        rollout = replace(rollout, reason=f"{rollout.reason}; no instance is added: {refusal}")
    for each in (before, rollout):
        if each.step in FINAL:  # a planner of a former release may have entered the step
            after = set_release_of_pools(each, after)
    is_waiting = not rollout.is_over and not rollout.is_paused
    return after.with_rollout(replace(rollout, due_at=now + interval if is_waiting else None))


def _begin_rollout(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    return fleet.with_rollout(enter_ring(rollout, rollout.ring_names[0], now))


_STEPS: Mapping[RolloutStep, Callable[[Rollout, Fleet, datetime], Fleet]] = {
    "ordered": _begin_rollout,
    "provisioning": provision_ring,
    "moving": fill_stage,
    "soaking": soak_stage,
    "draining": drain_old_instances,
    "retiring": retire_old_instances,
    "reverting": revert_ring,
}
