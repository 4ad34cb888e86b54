"""How a rollout comes to another step, to another ring, or to its end: the changes of its row. Pure.

The steps (``joining.py``, ``stages.py``, ``retiring.py``, ``reverting.py``) and orders (``rollout_orders.py``) call
this. The time when a step is entered decides when a rollout counts as stalled. A rollout that is to end has an
``outcome``. Its ``reason`` begins with why it ends until it is over.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR as REMEDIATION
from services.planner.domain.fleet.rollouts.rollout_rows import STALLED_AFTER, Rollout, RolloutStep

WAITS = "; it waits: "
"""Separates why a rollout is to end from what it waits for before that."""


def enter_step(rollout: Rollout, step: RolloutStep, now: datetime) -> Rollout:
    """The rollout at a step. The reason of the step before is dropped, but not why the rollout is to end."""
    reason = _reason_to_end(rollout) if rollout.outcome else ""
    return replace(rollout, step=step, step_since=now, moved_at=now, reason=reason)


def enter_ring(rollout: Rollout, ring: str, now: datetime) -> Rollout:
    """The rollout at the first step of a ring."""
    begun = enter_step(rollout, "provisioning", now)
    return replace(begun, ring=ring, stage=0, sources="[]", targets="[]", baseline="", tenants=0, moved=0)


def enter_next_ring(rollout: Rollout, now: datetime) -> Rollout:
    """The rollout at the ring after this one, or at its end."""
    if rollout.outcome:
        return end_rollout(rollout, now)
    following = rollout.ring_names[rollout.ring_names.index(rollout.ring) + 1 :]
    return enter_ring(rollout, following[0], now) if following else enter_step(rollout, "done", now)


def begin_reverting(rollout: Rollout, outcome: str, reason: str, now: datetime) -> Rollout:
    """The rollout on its way back: the tenants of its ring go to the old instances, and then it is over.

    Args:
        rollout: as it was.
        outcome: how it ends then: ``failed`` or ``aborted``.
        reason: why it goes back, in words for operators.
        now: the time.
    """
    return replace(enter_step(rollout, "reverting", now), outcome=outcome, reason=reason, is_paused=False)


def end_rollout(rollout: Rollout, now: datetime) -> Rollout:
    """The rollout at its end, as its ``outcome`` says.

    It keeps its stage if the ring keeps the release, and has stage 0 if the ring went back.
    """
    over = enter_step(rollout, "aborted" if rollout.outcome == "aborted" else "failed", now)
    return replace(over, stage=0 if rollout.step == "reverting" else rollout.stage)


def wait_for(rollout: Rollout, reason: str, fleet: Fleet) -> Fleet:
    """The fleet with the rollout staying at its step for this reason."""
    return fleet.with_rollout(replace(rollout, reason=reason))


def wait_or_end(rollout: Rollout, left: str, fleet: Fleet, now: datetime) -> Fleet:
    """The fleet with the rollout waiting for what is ``left``.

    A rollout that is to end leaves that as it is, and ends, when nothing has got on for long.
    """
    if not rollout.outcome:
        return wait_for(rollout, left, fleet)
    if not rollout.is_stalled(now):
        return wait_for(rollout, f"{_reason_to_end(rollout)}{WAITS}{left}", fleet)
    reason = f"{_reason_to_end(rollout)}; nothing has got on for {STALLED_AFTER}, and left as it is: {left}"
    over = replace(end_rollout(rollout, now), reason=reason)
    return withdraw_moves(fleet.with_rollout(over), now, "the rollout is over")


def withdraw_moves(fleet: Fleet, now: datetime, reason: str) -> Fleet:
    """The fleet with the rollout's moves cancelled that have not begun. Moves of evacuations go on."""
    rollout = fleet.rollout
    if rollout is None:
        return fleet
    ways = ((rollout.source_ids, rollout.target_ids), (rollout.target_ids, rollout.source_ids))
    return fleet.with_moves(
        replace(move, step="cancelled", is_cancelled=True, step_since=now, message=reason)
        for move in fleet.moves.values()
        if move.step == "ordered"
        and move.actor != REMEDIATION
        and any(move.source in source and move.target in target for source, target in ways)
    )


def _reason_to_end(rollout: Rollout) -> str:
    """Why a rollout is to end."""
    return rollout.reason.partition(WAITS)[0]
