"""Decides on orders to start, pause, resume and abort a rollout. Pure.

An order changes the row (``transitions.py``). The steps follow from the row (``rollout.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from services.common.messages import RINGS, AbortRollout, FleetOrder, PauseRollout, ResumeRollout, StartRollout
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import (
    joined,
    require_label,
    require_one_of,
    require_version,
    untested,
)
from services.planner.domain.fleet.rollouts.ring_instances import ring_of, runs
from services.planner.domain.fleet.rollouts.ring_room import lacking_room, shortages_by_hand
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, REVERTIBLE, Rollout
from services.planner.domain.fleet.rollouts.transitions import begin_reverting, withdraw_moves
from services.planner.domain.fleet.rows import Refused

MOST_SOAK = 24 * 3600
"""Seconds."""
RolloutOrder = StartRollout | PauseRollout | ResumeRollout | AbortRollout


def change_rollout(given: RolloutOrder, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """A message about the order, and the fleet after it: the same object if nothing has changed. Raises Refused."""
    if isinstance(given, StartRollout):
        return _start_rollout(given, order, fleet)
    current = fleet.rollout
    if current is None or current.is_over:
        raise Refused(
            "no rollout is under way: 'gitopsctl engines rollout status' shows whether there was one, and how it has "
            "ended"
        )
    match given:
        case PauseRollout():
            return _pause_rollout(current, fleet, order.ordered_at)
        case ResumeRollout():
            return _resume_rollout(current, fleet, order.ordered_at)
        case AbortRollout():
            return _abort_rollout(current, fleet, order.ordered_at)


def _start_rollout(wanted: StartRollout, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    current = fleet.rollout
    if current is not None and not current.is_over:
        raise Refused(_under_way_in_words(current))
    if not 0 <= wanted.soak_seconds <= MOST_SOAK:
        raise Refused(f"a soak is between 0 and {_in_words(MOST_SOAK)}, not {_in_words(wanted.soak_seconds)}")
    if wanted.profile:
        require_label("a profile", wanted.profile)
    rollout = _new_rollout(wanted, order, _find_rings(wanted.rings, fleet))
    members = [row for row in fleet.instances.values() if row.ring in rollout.ring_names and not row.is_retired]
    engines = sorted({row.engine for row in members})
    for engine in engines:
        require_version(engine, wanted.version, fleet)
    serving = [row for row in members if not row.is_unready]
    if serving and all(runs(row, rollout, fleet) for row in serving):
        raise Refused(f"every instance of {_rings_in_words(rollout.ring_names)} runs {rollout.release.in_words}")
    _require_room(rollout, fleet)
    summary = f"{_rings_in_words(rollout.ring_names)}, each stage soaks {rollout.soak}{_lost_profiles(rollout, fleet)}"
    risks = {untested(engine, wanted.version, fleet) for engine in engines}
    return joined(summary, *sorted(risks)), fleet.with_rollout(rollout)


def _in_words(seconds: int) -> str:
    """As ``--soak`` takes it, in its largest unit that leaves no rest."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if seconds % size == 0)
    return f"{seconds // size}{unit}"


def _under_way_in_words(current: Rollout) -> str:
    """Why no other rollout begins, in words for operators: which one is under way, and the command that helps."""
    step = f"{current.step} and paused" if current.is_paused else current.step
    wait = "'gitopsctl engines rollout resume' it" if current.is_paused else "wait for it"
    advice = wait if current.outcome else f"{wait}, or 'gitopsctl engines rollout abort' first"
    return f"a rollout of {current.release.in_words} is under way, and there is one at a time: it is {step}; {advice}"


def _new_rollout(wanted: StartRollout, order: FleetOrder, rings: Iterable[str]) -> Rollout:
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


def _find_rings(wanted: Iterable[str], fleet: Fleet) -> list[str]:
    """The rings of a rollout: those that were named, or all that have instances. Raises Refused.

    They are in the order in which versions come to rings, in whichever order they were named.
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
    """Raises Refused if new instances lack room in the first ring with old ones, and no pool adds any.

    A rollout waits for room in later rings when it comes to them: operators may add instances until then.
    """
    for name in rollout.ring_names:
        ring, in_ring = ring_of(rollout, name, fleet), replace(rollout, ring=name)
        if ring.sources:
            for lacking in shortages_by_hand(ring, in_ring, fleet):
                raise Refused(lacking_room(lacking, in_ring, fleet))
            return


def _lost_profiles(rollout: Rollout, fleet: Fleet) -> str:
    """If no profile was ordered: in words, the rings whose old instances or pools have one; empty if there is none.

    Such an order is not refused, because the usual profile may be meant.
    """
    lost = []
    for ring in () if rollout.profile else rollout.ring_names:
        pools = (pool.profile for pool in fleet.pools.values() if pool.ring == ring)
        profiles = {row.profile or "" for row in ring_of(rollout, ring, fleet).sources}.union(pools) - {""}
        if profiles:
            lost.append(f"ring {ring} gets the usual one in place of '{', '.join(sorted(profiles))}'")
    return f"; no --profile was given: {', '.join(lost)}" if lost else ""


def _pause_rollout(current: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if current.is_paused:
        return "it is paused", fleet
    if current.step == "reverting":
        raise Refused(
            f"ring {current.ring} goes back, which is not paused: "
            "'gitopsctl engines rollout status' shows how far it is"
        )
    paused = fleet.with_rollout(replace(current, is_paused=True, reason="an operator has paused it", due_at=None))
    return "moves that have begun go on to their end", withdraw_moves(paused, at, "the rollout is paused")


def _resume_rollout(current: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """Resume a rollout. A soak begins anew: figures of the time when nobody judged them do not count."""
    if not current.is_paused:
        return "it is not paused", fleet
    resumed = replace(current, is_paused=False, reason="", due_at=at, moved_at=at)
    return "", fleet.with_rollout(replace(resumed, step_since=at) if current.step == "soaking" else resumed)


def _abort_rollout(current: Rollout, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    if current.step == "reverting":
        return f"ring {current.ring} goes back", fleet
    if current.outcome:
        return f"it ends after ring {current.ring}", fleet
    reason = "an operator has aborted it"
    if current.step in REVERTIBLE:
        after = replace(begin_reverting(current, "aborted", reason, at), due_at=at)
        return f"the tenants of ring {current.ring} go back", fleet.with_rollout(after)
    if current.step in FINAL:
        after = replace(current, outcome="aborted", is_paused=False, reason=reason, due_at=at)
        return f"ring {current.ring} does not go back any more; no other follows", fleet.with_rollout(after)
    over = replace(current, step="aborted", is_paused=False, step_since=at, reason=reason, due_at=None)
    return "none of the ring's tenants has moved", fleet.with_rollout(over)


def _rings_in_words(rings: Iterable[str]) -> str:
    rings = list(rings)
    return f"ring{'s' if len(rings) > 1 else ''} {', '.join(rings)}"
