"""The stages of a ring: how many tenants are on new instances at each stage, and its steps 2 and 3. Pure.

A stage is a share of the ring's tenants. Step 2 moves as many tenants as the stage lacks, drawn by lot
(``ring_tenants.py``), and step 3 observes them until the gate has passed (``gates.py``). Then the next stage begins, or
the same one again if too few of its tenants are left. After the last stage the old instances are given up
(``retiring.py``). If a gate fails, or a new instance is down, the ring goes back at once (``reverting.py``). The
rollout (``rollout.py``) calls this, and so does step 1 at its end (``joining.py``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.gates import judge_stage
from services.planner.domain.fleet.rollouts.ring_health import find_trouble
from services.planner.domain.fleet.rollouts.ring_tenants import (
    count_settled,
    in_order_drawn,
    is_coming,
    is_on,
    may_leave,
    send_tenants,
    tenants_of,
)
from services.planner.domain.fleet.rollouts.rollout_rows import LAST_STAGE, STALLED_AFTER, Rollout
from services.planner.domain.fleet.rollouts.transitions import begin_reverting, enter_step, wait_for, withdraw_moves

STAGES = (1, 10, LAST_STAGE)
"""Percent of a ring's tenants that are on new instances, one stage after the other. A CHECK of the table ``rollouts``
lists them, too: another stage takes a migration."""
FEWEST_TENANTS = 2
"""Tenants of any stage, at least: a gate does not fail by one tenant alone."""
MOST_REFILLED = 3
"""How often a stage is filled again before operators are asked: tenants that come and go could keep it for ever."""


def stage_tenants(stage: int, tenants: int) -> int:
    """How many of ``tenants`` that were on old instances are on new ones at ``stage``, which is in percent."""
    return min(tenants, max(FEWEST_TENANTS, math.ceil(tenants * stage / 100)))


def wanted_tenants(stage: int, rollout: Rollout, tenants: int) -> int:
    """How many of a ring's tenants are on new instances at a stage: those from before, and a share of the others."""
    before = min(rollout.there_before, tenants)
    return before + stage_tenants(stage, tenants - before)


def fewest_tenants(stage: int, rollout: Rollout, tenants: int) -> int:
    """How many of a ring's tenants have to be on new instances at least when a stage has soaked.

    At the last stage all that were there, without deleted ones: step 4 would move any other without a gate. At earlier
    stages half of the tenants that the stage wants, because tenants are deleted, and come to the ring, all the time.
    """
    wanted = wanted_tenants(stage, rollout, tenants)
    return min(wanted, rollout.moved if stage == LAST_STAGE else math.ceil(wanted / 2))


def enter_next_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The rollout at the next stage that wants more tenants than are on new instances; if there is none, at step 4."""
    tenants = tenants_of(rollout, fleet).values()
    there = sum(is_on(each, rollout.target_ids) for each in tenants)
    for stage in STAGES:
        if stage > rollout.stage and wanted_tenants(stage, rollout, len(tenants)) > there:
            following = replace(enter_step(rollout, "moving", now), stage=stage, tenants=len(tenants), moved=there)
            return following.with_refilled(0)
    return replace(enter_step(rollout, "draining", now), stage=LAST_STAGE, tenants=len(tenants), moved=there)


def fill_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 2: it ends when as many tenants as the stage wants have arrived on new instances.

    Tenants are drawn by lot, those with Applications first. When no tenant has arrived for long, the rollout is paused.
    """
    trouble = find_trouble(rollout, fleet, now)
    if trouble.is_of_version:
        return _stop_rollout(rollout, trouble.reason, fleet, now)
    tenants, counted = tenants_of(rollout, fleet), count_settled(rollout, fleet, now)
    wanted, settled = wanted_tenants(rollout.stage, rollout, counted.tenants), counted.moved
    if settled >= wanted and not trouble.reason:
        return fleet.with_rollout(enter_step(counted, "soaking", now))
    coming = sum(is_coming(each, rollout, fleet) for each in tenants.values())
    most = 0 if trouble.reason else max(0, wanted - settled - coming)
    drawn = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], rollout.source_ids, fleet)]
    after, rule = send_tenants(rollout, fleet, drawn, rollout.target_ids, now, most)
    rule = trouble.reason or rule
    if counted.is_stalled(now):
        reason = f"no tenant has arrived for {STALLED_AFTER}; resume, or abort: {rule or 'see gitopsctl engines moves'}"
        paused = after.with_rollout(replace(counted, is_paused=True, reason=reason))
        return withdraw_moves(paused, now, "the rollout is paused")
    progress = f"{settled} of {wanted} tenants are on new instances"
    return wait_for(counted, f"{progress}: {rule}" if rule else progress, after)


def soak_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 3: the gate. If it fails, the ring goes back at once.

    If it passes, the step waits for the end of the soak, and until every new instance with tenants is well.
    """
    trouble = find_trouble(rollout, fleet, now)
    if trouble.is_of_version:
        return _stop_rollout(rollout, trouble.reason, fleet, now)
    if trouble.reason:
        return wait_for(rollout, trouble.reason, fleet)
    over = rollout.step_since + rollout.soak
    verdict = judge_stage(rollout, fleet, now)
    if verdict.outcome == "fail":
        return _stop_rollout(rollout, verdict.reason, fleet, now)
    if now < over or verdict.outcome == "wait":
        until = f"until {over.isoformat(timespec='seconds')}" if now < over else ""
        return wait_for(rollout, "; ".join(filter(None, (until, verdict.reason))), fleet)
    return fleet.with_rollout(_end_soak(rollout, fleet, now))


def _end_soak(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The rollout after a gate that has passed.

    If too few of the stage's tenants are left, the gate has judged too little: others move in their place. If there are
    more than the stage wanted, because an old instance was evacuated, the stage soaks again with them.
    """
    counted = count_settled(rollout, fleet, now)
    is_refilled = rollout.refilled == MOST_REFILLED  # an operator has resumed it with those that are there
    if counted.moved < fewest_tenants(rollout.stage, rollout, counted.tenants) and not is_refilled:
        return _refill_stage(counted, now)
    if rollout.stage < LAST_STAGE and counted.moved > rollout.moved:
        return enter_step(counted, "soaking", now)
    return enter_next_stage(rollout, fleet, now)


def _refill_stage(rollout: Rollout, now: datetime) -> Rollout:
    """The rollout with its stage being filled again; paused, with a message for operators, if that was so too often."""
    again = enter_step(rollout, "moving", now).with_refilled(rollout.refilled + 1)
    if again.refilled < MOST_REFILLED:
        return again
    reason = f"{MOST_REFILLED} times too few of the stage's tenants were left on new instances; resume, or abort"
    return replace(again, is_paused=True, reason=reason)


def _stop_rollout(rollout: Rollout, reason: str, fleet: Fleet, now: datetime) -> Fleet:
    """The fleet with the ring going back, because the version has failed."""
    return fleet.with_rollout(begin_reverting(rollout, "failed", f"at {rollout.stage} %: {reason}", now))
