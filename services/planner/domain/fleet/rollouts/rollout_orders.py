"""Decides on orders about rollouts: to begin one, to pause, to resume and to abort it. Pure.

What an order changes is the row (``transitions.py``); the steps follow from that (``rollout.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from services.common.messages import RINGS, AbortRollout, FleetOrder, PauseRollout, ResumeRollout, StartRollout
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import require_label, require_one_of, require_version
from services.planner.domain.fleet.rollouts.ring_instances import ring_of, runs
from services.planner.domain.fleet.rollouts.ring_room import lacking_room, shortages_by_hand
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, REVERTIBLE, Rollout
from services.planner.domain.fleet.rollouts.transitions import begin_reverting, withdraw_moves
from services.planner.domain.fleet.rows import Refused

MOST_SOAK = timedelta(hours=24)
RolloutOrder = StartRollout | PauseRollout | ResumeRollout | AbortRollout


def change_rollout(given: RolloutOrder, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """What is told of the order, and the fleet afterwards: the very same if nothing has changed. Raises Refused."""
    if isinstance(given, StartRollout):
        return _start(given, order, fleet)
    known = fleet.rollout
    if known is None or known.is_over:
        raise Refused("no rollout is under way: 'gitopsctl engines rollout status' shows how the newest has ended")
    match given:
        case PauseRollout():
            return _pause(known, fleet, order.ordered_at)
        case ResumeRollout():
            return _resume(known, fleet, order.ordered_at)
        case AbortRollout():
            return _abort(known, fleet, order.ordered_at)


def _start(wanted: StartRollout, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    known = fleet.rollout
    if known is not None and not known.is_over:
        raise Refused(_under_way(known))
    if not 0 <= wanted.soak_seconds <= MOST_SOAK.total_seconds():
        raise Refused(f"a soak is between 0 and {MOST_SOAK}, not {wanted.soak_seconds} s")
    if wanted.profile:
        require_label("a profile", wanted.profile)
    rollout = _ordered(wanted, order, _rings(wanted.rings, fleet))
    members = [row for row in fleet.instances.values() if row.ring in rollout.ring_names and not row.is_retired]
    for engine in sorted({row.engine for row in members}):
        require_version(engine, wanted.version, fleet)
    serving = [row for row in members if not row.is_unready]
    if serving and all(runs(row, rollout, fleet) for row in serving):
        raise Refused(f"every instance of {_named(rollout.ring_names)} runs {rollout.release.in_words}")
    _require_room(rollout, fleet)
    told = f"{_named(rollout.ring_names)}, each stage soaks {rollout.soak}{_lost_profiles(rollout, fleet)}"
    return told, fleet.with_rollout(rollout)


def _under_way(known: Rollout) -> str:
    """Why no other rollout begins: the one that is under way, and the command that helps, as operators are told."""
    step = f"{known.step} and paused" if known.is_paused else known.step
    wait = "'gitopsctl engines rollout resume' it" if known.is_paused else "wait for it"
    advice = wait if known.outcome else f"{wait}, or 'gitopsctl engines rollout abort' first"
    return f"a rollout of {known.release.in_words} is under way, and there is one at a time: it is {step}; {advice}"


def _ordered(wanted: StartRollout, order: FleetOrder, rings: Iterable[str]) -> Rollout:
    at = order.ordered_at
    return Rollout(
        id=order.id,
        version=wanted.version,
        profile=wanted.profile,
        rings=",".join(rings),
        soak_seconds=wanted.soak_seconds,
        is_security=wanted.is_security,
        step="ordered",
        ring="",
        stage=0,
        is_paused=False,
        outcome="",
        sources="[]",
        targets="[]",
        baseline="",
        tenants=0,
        moved=0,
        reason="",
        actor=order.actor,
        ordered_at=at,
        step_since=at,
        moved_at=at,
        due_at=at,
    )


def _rings(wanted: Iterable[str], fleet: Fleet) -> list[str]:
    """The rings of a rollout: those that were named, or all that have instances. Raises Refused.

    They are in the one order in which a version comes to them, however they were named.
    """
    used = {row.ring for row in fleet.instances.values() if not row.is_retired}
    for ring in wanted:
        require_one_of("ring", ring, RINGS)
        if ring not in used:
            raise Refused(f"no engine instance is in ring {ring}: leave it out of --rings")
    found = [ring for ring in RINGS if ring in (set(wanted) or used)]
    if not found:
        raise Refused("there is no engine instance: 'gitopsctl engines add' adds one")
    return found


def _require_room(rollout: Rollout, fleet: Fleet) -> None:
    """Raises Refused if new instances lack room for the first ring that still has old ones, and no pool adds any.

    Of later rings it is told in their turn: operators may add instances until then.
    """
    for name in rollout.ring_names:
        ring, in_ring = ring_of(rollout, name, fleet), replace(rollout, ring=name)
        if ring.sources:
            for lacking in shortages_by_hand(ring, in_ring, fleet):
                raise Refused(lacking_room(lacking, in_ring, fleet))
            return


def _lost_profiles(rollout: Rollout, fleet: Fleet) -> str:
    """Rings whose old instances or pools have a profile, in words, if none was ordered; empty if there is no such ring.

    An order without one is not refused: it does not tell whether the usual one is meant.
    """
    lost = []
    for ring in () if rollout.profile else rollout.ring_names:
        pools = (pool.profile for pool in fleet.pools.values() if pool.ring == ring)
        known = {row.profile or "" for row in ring_of(rollout, ring, fleet).sources}.union(pools) - {""}
        if known:
            lost.append(f"ring {ring} gets the usual one in place of '{', '.join(sorted(known))}'")
    return f"; no --profile was given: {', '.join(lost)}" if lost else ""


def _pause(known: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if known.is_paused:
        return "it is paused", fleet
    if known.step == "reverting":
        raise Refused(
            f"ring {known.ring} goes back, which is not paused: 'gitopsctl engines rollout status' shows how far it is"
        )
    paused = fleet.with_rollout(replace(known, is_paused=True, reason="an operator has paused it", due_at=None))
    return "moves that have begun go on to their end", withdraw_moves(paused, at, "the rollout is paused")


def _resume(known: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """A soak begins anew: what was told while nobody judged it is not looked at."""
    if not known.is_paused:
        return "it is not paused", fleet
    resumed = replace(known, is_paused=False, reason="", due_at=at, moved_at=at)
    return "", fleet.with_rollout(replace(resumed, step_since=at) if known.step == "soaking" else resumed)


def _abort(known: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if known.step == "reverting":
        return f"ring {known.ring} goes back", fleet
    if known.outcome:
        return f"it ends after ring {known.ring}", fleet
    reason = "an operator has aborted it"
    if known.step in REVERTIBLE:
        after = replace(begin_reverting(known, "aborted", reason, at), due_at=at)
        return f"the tenants of ring {known.ring} go back", fleet.with_rollout(after)
    if known.step in FINAL:
        after = replace(known, outcome="aborted", is_paused=False, reason=reason, due_at=at)
        return f"ring {known.ring} does not go back any more; no other follows", fleet.with_rollout(after)
    over = replace(known, step="aborted", is_paused=False, step_since=at, reason=reason, due_at=None)
    return "none of the ring's tenants has moved", fleet.with_rollout(over)


def _named(rings: Iterable[str]) -> str:
    rings = list(rings)
    return f"ring{'s' if len(rings) > 1 else ''} {', '.join(rings)}"
