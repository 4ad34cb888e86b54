"""Brings a version to the fleet, ring by ring: what comes next, from what is seen of the ring. Pure.

In each ring, in this order:

1. ``provisioning``: instances of the version join the ring, until they can have all that its old ones carry. Whoever
   joins later gets tenants, too; an old one that joins before 4 is one of the old ones.
2. ``moving``: some of the ring's tenants move to them: 1 %, then 10 %, then all.
3. ``soaking``: what was moved is looked at for a time, and judged (``gates.py``). Then 2 again, with more tenants, or
   with as many if too few of them are there yet.
4. ``draining``: the old instances take no new tenants, and those that came meanwhile move, too. What the ring's pools
   add from here on is of the version.
5. ``retiring``: the old instances are given up. If others that are old have joined the ring since 4, it is their turn
   at 4, once there is room for what they carry. Else the next ring begins.

Until 4 a ring goes back: ``reverting`` drains the new instances and moves everybody to the old ones whom these can
carry. A gate that fails, a new instance that is down or stays ill, and an order to abort do that, and end the rollout.
From 4 on a ring is the new version's; an abort ends the rollout after it. Each step is a row, decided by what is seen,
and so safe to repeat: a move is ordered only for a tenant that is not where it should be, and not on its way.

No instance that is lost keeps a rollout from its end. An old one is waited for while tenants are on it: when they have
left it, to new ones too, the rollout goes on without it. One that is to end does so when nothing has got on for an
hour, and says what it has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.placement.assignment_orders import require_nobody_pinned
from services.planner.domain.fleet.remediation.evacuation import ACTOR as REMEDIATION
from services.planner.domain.fleet.rollouts.gates import Verdict, is_enough, judge
from services.planner.domain.fleet.rollouts.ring_health import (
    find_illness,
    find_trouble,
    left_behind,
    occupied,
    without_old,
    without_way_back,
)
from services.planner.domain.fleet.rollouts.ring_instances import Ring, cell_of, ring_of, runs
from services.planner.domain.fleet.rollouts.ring_room import lacking_room, shortages
from services.planner.domain.fleet.rollouts.ring_tenants import (
    fewest_tenants,
    in_order_drawn,
    is_coming,
    is_on,
    is_settled,
    may_leave,
    most_parts,
    send_tenants,
    tenants_of,
    wanted_tenants,
)
from services.planner.domain.fleet.rollouts.rollout_rows import (
    FINAL,
    REVERTIBLE,
    SENDING,
    STAGES,
    STALLED_AFTER,
    THERE_BEFORE,
    Figures,
    Rollout,
    RolloutStep,
    together,
)
from services.planner.domain.fleet.rows import EngineInstanceRow, Refused

DATA_PATIENCE = timedelta(minutes=30)
"""How long figures are waited for: of the ring's past, which is then left out, and beyond a soak, which has failed.

As long an ill instance may take to be well again, and one that is back may take to tell figures."""
MOST_REFILLED = 3
"""Times that a stage is filled again; then operators are asked. Tenants that come and go would keep it for ever."""
WAITS = "; it waits: "
"""Between why a rollout is to end, and what keeps it from that."""
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


def settle_rollout(fleet: Fleet, now: datetime, interval: timedelta, refusal: str = "") -> Fleet:
    """With the next step of the rollout that is under way, if it is due.

    Args:
        fleet: all rows, all tenants of the ring, what is on its instances, and the figures that the step asks for.
        now: the time.
        interval: when to look again.
        refusal: why no instance was added that the ring lacks; empty if none was asked for, or all were added.
    """
    before = fleet.rollout
    if before is None or not before.is_due(now):
        return fleet
    after = _STEPS[before.step](_with_joined(before, fleet), fleet, now)
    rollout = after.rollout
    assert rollout is not None  # noqa: S101 - no step takes it away
    if refusal and rollout.step == before.step:
        rollout = replace(rollout, reason=f"{rollout.reason}; no instance is added: {refusal}")
    for each in (before, rollout):
        if each.step in FINAL:  # also a row that a former release has brought there
            after = _with_pools(each, after)
    is_waiting = not rollout.is_over and not rollout.is_paused
    return after.with_rollout(replace(rollout, due_at=now + interval if is_waiting else None))


def reverted(rollout: Rollout, outcome: str, reason: str, now: datetime) -> Rollout:
    """The rollout on its way back: the tenants of its ring go to the old instances, and then it is over.

    Args:
        rollout: as it was.
        outcome: how it ends then: ``failed`` or ``aborted``.
        reason: why it goes back, as operators are told.
        now: the time.
    """
    return replace(_at(rollout, "reverting", now), outcome=outcome, reason=reason, is_paused=False)


def _with_joined(rollout: Rollout, fleet: Fleet) -> Rollout:
    """With the instances that have joined its ring since the first tenant moved: each stays old, or new, from then on.

    Old ones until step 4: their tenants pass the stages, too, and a ring that goes back needs their room. Those of
    which nobody sees what they run, those in whose cell no new one is, and those that join later have their turn at 5:
    that waits for what is to take their tenants.
    """
    if rollout.step not in {*REVERTIBLE, *SENDING}:
        return rollout
    ring, sources = ring_of(rollout, rollout.ring, fleet), rollout.source_ids
    if rollout.step not in FINAL:
        cells = {cell_of(row) for row in (*ring.targets, *(fleet.instances[each] for each in rollout.target_ids))}
        known = {row.id for row in ring.sources if fleet.version_of(row) and cell_of(row) in cells}
        sources |= known - rollout.target_ids
    targets = rollout.target_ids | ({row.id for row in ring.targets} - sources)
    return replace(rollout, sources=json.dumps(sorted(sources)), targets=json.dumps(sorted(targets)))


def _begin(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    return fleet.with_rollout(_in_ring(rollout, rollout.ring_names[0], now))


def _provision(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 1: sources and targets are settled when the first tenant moves; until then whoever joins counts."""
    ring = ring_of(rollout, rollout.ring, fleet)
    past = _comparable(ring, rollout, fleet)
    is_told = is_enough(past) or now >= rollout.step_since + DATA_PATIENCE
    if lacking := _lacking(ring, rollout, fleet):
        return _waiting(rollout, lacking, fleet)
    if not ring.sources:
        return _with_pools(rollout, fleet).with_rollout(_next_ring(rollout, now))
    if any(fleet.holding(row.id).deployments for row in ring.sources) and not is_told:
        return _waiting(rollout, "too little is known of what the ring's instances did so far", fleet)
    settled = replace(rollout, sources=_ids(ring.sources), targets=_ids(ring.targets))
    there = sum(is_on(each, settled.target_ids) for each in fleet.tenants.values())
    settled = replace(settled, baseline=json.dumps({**asdict(past), THERE_BEFORE: there}))
    return fleet.with_rollout(_next_stage(settled, fleet, now))


def _comparable(ring: Ring, rollout: Rollout, fleet: Fleet) -> Figures:
    """What gates compare with, of the ring's old instances.

    A profile may set another interval of comparisons: how long ago these were says nothing then. Who is late does, as
    each instance's own interval decides that.
    """
    past = together(fleet.figures[row.id] for row in ring.sources if row.id in fleet.figures)
    if all((row.profile or "") == rollout.profile for row in ring.sources):
        return past
    return replace(past, comparison_p95_ms=None)


def _lacking(ring: Ring, rollout: Rollout, fleet: Fleet) -> str:
    """What has to be there before tenants leave the ring's old instances; empty: all is."""
    if ring.unknown:
        return f"no agent has told of engine instance {ring.unknown[0].id} yet"
    return next((lacking_room(each, rollout, fleet) for each in shortages(ring, rollout, fleet)), "")


def _with_pools(rollout: Rollout, fleet: Fleet) -> Fleet:
    """What joins the ring from now on is of the release, too."""
    for pool in tuple(fleet.pools.values()):
        if pool.ring == rollout.ring:
            fleet = fleet.with_pool(pool.with_release(rollout.release))
    return fleet


def _move(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 2. Those who move are drawn: by a hash of theirs and the rollout's id, those with Applications first."""
    trouble = find_trouble(rollout, fleet, now)
    if trouble.is_of_version:
        return _stopped(rollout, trouble.reason, fleet, now)
    tenants = tenants_of(rollout, fleet)
    wanted, settled = wanted_tenants(rollout.stage, rollout, len(tenants)), _settled_count(rollout, fleet)
    counted = _counted(rollout, len(tenants), settled, now)
    if settled >= wanted and not trouble.reason:
        return fleet.with_rollout(_at(counted, "soaking", now))
    coming = sum(is_coming(each, rollout, fleet) for each in tenants.values())
    most = 0 if trouble.reason else max(0, wanted - settled - coming)
    drawn = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], rollout.source_ids, fleet)]
    after, rule = send_tenants(rollout, fleet, drawn, rollout.target_ids, now, most)
    rule = trouble.reason or rule
    if counted.is_stalled(now):
        reason = f"no tenant has arrived for {STALLED_AFTER}; resume, or abort: {rule or 'see gitopsctl engines moves'}"
        paused = after.with_rollout(replace(counted, is_paused=True, reason=reason))
        return withdrawn(paused, now, "the rollout is paused")
    told = f"{settled} of {wanted} tenants are on new instances"
    return _waiting(counted, f"{told}: {rule}" if rule else told, after)


def _soak(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 3. The gate.

    One that fails ends the stage at once. One that passes waits for the end of the soak, and until every new instance
    with tenants is well.
    """
    trouble = find_trouble(rollout, fleet, now)
    if trouble.is_of_version:
        return _stopped(rollout, trouble.reason, fleet, now)
    if trouble.reason:
        return _waiting(rollout, trouble.reason, fleet)
    over = rollout.step_since + rollout.soak
    verdict = _verdict(rollout, fleet, now)
    if verdict.outcome == "fail":
        return _stopped(rollout, verdict.reason, fleet, now)
    if now < over or verdict.outcome == "wait":
        until = f"until {over.isoformat(timespec='seconds')}" if now < over else ""
        return _waiting(rollout, "; ".join(filter(None, (until, verdict.reason))), fleet)
    return fleet.with_rollout(_soaked(rollout, fleet, now))


def _soaked(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The rollout after a gate that has passed.

    If too few of the stage's tenants are there yet it has looked at too little: others move in their place. If more
    are, who came from an old instance that is down, they are looked at, too, before the next stage.
    """
    counted = _counted(rollout, len(tenants_of(rollout, fleet)), _settled_count(rollout, fleet), now)
    is_refilled = rollout.refilled == MOST_REFILLED  # an operator has resumed it with those that are there
    if counted.moved < fewest_tenants(rollout.stage, rollout, counted.tenants) and not is_refilled:
        return _refilled(counted, now)
    if rollout.stage < STAGES[-1] and counted.moved > rollout.moved:
        return _at(counted, "soaking", now)
    return _next_stage(rollout, fleet, now)


def _refilled(rollout: Rollout, now: datetime) -> Rollout:
    """The stage once more; at the last time it is paused, which operators are told."""
    again = _at(rollout, "moving", now).with_refilled(rollout.refilled + 1)
    if again.refilled < MOST_REFILLED:
        return again
    reason = f"{MOST_REFILLED} times too few of the stage's tenants were left on new instances; resume, or abort"
    return replace(again, is_paused=True, reason=reason)


def _verdict(rollout: Rollout, fleet: Fleet, now: datetime) -> Verdict:
    """What follows from figures, and from how the instances are that tell them; nothing is waited for if it is late.

    But for an illness that the old ones have, too: nothing can be told of the version while that lasts.
    """
    present = {each: fleet.figures.get(each, Figures()) for each in _judged(rollout, fleet)}
    verdict = judge(past_of(rollout), present, most_parts(rollout, fleet))
    if verdict.outcome == "fail":
        return verdict
    late = {each for each, figures in present.items() if now >= _late_at(rollout, each, figures, fleet)}
    illness = find_illness(rollout, fleet, now, DATA_PATIENCE, late)
    if illness.reason:
        return Verdict("fail" if illness.is_of_version else "wait", illness.reason)
    if verdict.outcome == "wait" and any(not is_enough(present[each]) for each in late):
        return Verdict("fail", f"too little was told in {now - rollout.step_since}: {verdict.reason}")
    return verdict


def _late_at(rollout: Rollout, instance: str, figures: Figures, fleet: Fleet) -> datetime:
    """When it is late for an instance that is ill, or has told too little, to let a stage pass.

    If it has told too little, or only its cordon is left, not before it has been as it is for :data:`DATA_PATIENCE`:
    until then the ring may have waited for another reason, such as that nobody reached it.
    """
    over, told = rollout.step_since + rollout.soak, fleet.health.get(instance)
    was_reached = is_enough(figures) and fleet.is_ill(instance)
    return (over if told is None or was_reached else max(over, told.since)) + DATA_PATIENCE


def past_of(rollout: Rollout) -> Figures:
    """Figures of the ring's old instances before the first tenant moved: gates compare with these."""
    told = json.loads(rollout.baseline or "{}")
    # A newer planner may have written more.
    return Figures(**{each.name: told[each.name] for each in fields(Figures) if each.name in told})


def _drain(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 4. From here on the ring does not go back. What nobody reaches is left behind after a while."""
    fleet = _drained(rollout.source_ids, fleet)
    tenants = tenants_of(rollout, fleet)
    late = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], rollout.source_ids, fleet)]
    fleet, rule = send_tenants(rollout, fleet, late, rollout.target_ids, now, len(late))
    counted = _counted(rollout, len(tenants), _settled_count(rollout, fleet), now)
    left = occupied(rollout.source_ids, fleet)
    if not left or (counted.is_stalled(now) and left_behind(rollout, fleet).issuperset(left)):
        return fleet.with_rollout(_at(counted, "retiring", now))
    return _unfinished(counted, f"something is on engine instance {left[0]} yet{rule and f': {rule}'}", fleet, now)


def _retire(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 5. What came to one of them in the last moment moves first. None is given up while new ones are ill."""
    given_up = rollout.source_ids - left_behind(rollout, fleet)
    if occupied(given_up, fleet):
        return fleet.with_rollout(_at(rollout, "draining", now))
    if fleet.is_rebuilt:
        return _unfinished(rollout, "the database is being rebuilt", fleet, now)
    leaving = [row for known in sorted(given_up) if not (row := fleet.instances[known]).is_retired]
    if leaving and (illness := find_illness(rollout, fleet, now, DATA_PATIENCE, ()).reason):
        return _unfinished(rollout, illness, fleet, now)
    try:
        for row in leaving:
            require_nobody_pinned(row, fleet)
    except Refused as rule:
        return _unfinished(rollout, str(rule), fleet, now)
    for row in leaving:
        fleet = fleet.with_instance(replace(row, state="retired", ordered_at=now))
    return _give_up_late(rollout, fleet, now)


def _give_up_late(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 5 for old instances that have joined the ring since step 4: it is their turn at that.

    Not at 1: all tenants that the ring had have been looked at on its new instances, and the ring does not go back from
    these to one that is late, which may be small.
    """
    joined = ring_of(rollout, rollout.ring, fleet)
    if lacking := _lacking(joined, rollout, fleet):
        return _unfinished(rollout, lacking, fleet, now)
    if joined.sources:
        late = {row.id for row in joined.sources}
        given_up = replace(rollout, sources=_ids(joined.sources), targets=json.dumps(sorted(rollout.target_ids - late)))
        return fleet.with_rollout(_at(given_up, "draining", now))
    if coming := _joining_of_old(rollout, fleet):
        reason = f"engine instance {coming} is provisioning, and not of {rollout.release.in_words} as far as is known"
        return _unfinished(rollout, reason, fleet, now)
    return fleet.with_rollout(_next_ring(rollout, now))


def _joining_of_old(rollout: Rollout, fleet: Fleet) -> str:
    """An instance of another release, or of none that is known, that will join the ring; empty if there is none."""
    late = (
        row.id
        for row in fleet.instances.values()
        if row.ring == rollout.ring and row.state == "provisioning" and not runs(row, rollout, fleet)
    )
    return min(late, default="")


def _revert(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Back. Moves that can be cancelled are, because their targets drain; the others end, and go back after that.

    Who is pinned stays, and so does whom no old instance can carry: the reason says which rule keeps them. Tenants of a
    cell that has no old instance, not even one that is down, are not waited for.
    New instances take tenants again while all old ones that these could go back to are down: who is on one of those
    has to go somewhere. Not those that an operator has given an order about since the rollout was: they may have been
    drained by that.
    """
    targets = rollout.target_ids
    staying = without_way_back(rollout, fleet)
    fleet = _undrained(
        (each for each in staying if not _is_ordered(fleet.instances[each], rollout)),
        _drained(targets - staying, fleet),
    )
    tenants = tenants_of(rollout, fleet)
    returning = targets - without_old(rollout, fleet)
    back = [name for name in in_order_drawn(rollout, tenants) if may_leave(tenants[name], returning, fleet)]
    fleet, rule = send_tenants(rollout, fleet, back, rollout.source_ids, now, len(back))
    counted = _counted(rollout, len(tenants), sum(is_on(each, returning) for each in tenants.values()), now)
    moving = sum(is_moving(each, fleet) and not fleet.moves[each.id].is_fencing for each in tenants.values())
    if not counted.moved and not moving:
        return fleet.with_rollout(_ended(counted, now))
    left = f"tenants on new instances: {counted.moved}, on their way: {moving}{rule and f'; {rule}'}"
    return _unfinished(counted, left, fleet, now)


_STEPS: Mapping[RolloutStep, Callable[[Rollout, Fleet, datetime], Fleet]] = {
    "ordered": _begin,
    "provisioning": _provision,
    "moving": _move,
    "soaking": _soak,
    "draining": _drain,
    "retiring": _retire,
    "reverting": _revert,
}


def withdrawn(fleet: Fleet, now: datetime, reason: str) -> Fleet:
    """Without the rollout's moves that have not begun. Those by which a dead instance is evacuated go on."""
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


def _at(rollout: Rollout, step: RolloutStep, now: datetime) -> Rollout:
    reason = _cause(rollout) if rollout.outcome else ""
    return replace(rollout, step=step, step_since=now, moved_at=now, reason=reason)


def _cause(rollout: Rollout) -> str:
    """Why a rollout is to end."""
    return rollout.reason.partition(WAITS)[0]


def _ended(rollout: Rollout, now: datetime) -> Rollout:
    """It keeps the stage of a ring that stays with the release; none of one that has gone back."""
    over = _at(rollout, "aborted" if rollout.outcome == "aborted" else "failed", now)
    return replace(over, stage=0 if rollout.step == "reverting" else rollout.stage)


def _unfinished(rollout: Rollout, left: str, fleet: Fleet, now: datetime) -> Fleet:
    """It waits for what is ``left``. One that is to end leaves that as it is when nothing has got on for long."""
    if not rollout.outcome:
        return _waiting(rollout, left, fleet)
    if not rollout.is_stalled(now):
        return _waiting(rollout, f"{_cause(rollout)}{WAITS}{left}", fleet)
    reason = f"{_cause(rollout)}; nothing has got on for {STALLED_AFTER}, and left as it is: {left}"
    over = replace(_ended(rollout, now), reason=reason)
    return withdrawn(fleet.with_rollout(over), now, "the rollout is over")


def _in_ring(rollout: Rollout, ring: str, now: datetime) -> Rollout:
    begun = _at(rollout, "provisioning", now)
    return replace(begun, ring=ring, stage=0, sources="[]", targets="[]", baseline="", tenants=0, moved=0)


def _next_ring(rollout: Rollout, now: datetime) -> Rollout:
    """The rollout at the ring after this one, or at its end."""
    if rollout.outcome:
        return _ended(rollout, now)
    following = rollout.ring_names[rollout.ring_names.index(rollout.ring) + 1 :]
    return _in_ring(rollout, following[0], now) if following else _at(rollout, "done", now)


def _next_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The rollout at the first stage that wants more tenants than are there already, or at step 4 if all are."""
    tenants = tenants_of(rollout, fleet).values()
    there = sum(is_on(each, rollout.target_ids) for each in tenants)
    for stage in STAGES:
        if stage > rollout.stage and wanted_tenants(stage, rollout, len(tenants)) > there:
            following = replace(_at(rollout, "moving", now), stage=stage, tenants=len(tenants), moved=there)
            return following.with_refilled(0)
    return replace(_at(rollout, "draining", now), stage=STAGES[-1], tenants=len(tenants), moved=there)


def _waiting(rollout: Rollout, reason: str, fleet: Fleet) -> Fleet:
    return fleet.with_rollout(replace(rollout, reason=reason))


def _counted(rollout: Rollout, tenants: int, moved: int, now: datetime) -> Rollout:
    moved_at = rollout.moved_at if moved == rollout.moved else now
    return replace(rollout, tenants=tenants, moved=moved, moved_at=moved_at)


def _settled_count(rollout: Rollout, fleet: Fleet) -> int:
    return sum(is_settled(each, rollout, fleet) for each in tenants_of(rollout, fleet).values())


def _stopped(rollout: Rollout, reason: str, fleet: Fleet, now: datetime) -> Fleet:
    return fleet.with_rollout(reverted(rollout, "failed", f"at {rollout.stage} %: {reason}", now))


def _judged(rollout: Rollout, fleet: Fleet) -> list[str]:
    """Ids of the new instances that have tenants: a gate asks for the figures of each."""
    return sorted({each.engine_instance_id for each in tenants_of(rollout, fleet).values()} & rollout.target_ids)


def _drained(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """The fleet with these instances draining: no new tenant is placed on them."""
    for known in sorted(instances):
        row = fleet.instances[known]
        if row.is_taking:
            fleet = fleet.with_instance(replace(row, state="draining"))
    return fleet


def _undrained(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """The fleet with these instances accepting tenants again, where their cluster takes any."""
    for known in sorted(instances):
        row = fleet.instances[known]
        if row.is_leaving and fleet.clusters[row.engine_cluster].state == "active":
            fleet = fleet.with_instance(replace(row, state="accepting"))
    return fleet


def _is_ordered(row: EngineInstanceRow, rollout: Rollout) -> bool:
    """Whether an operator has changed an instance since the rollout was ordered, beside adding it."""
    return row.ordered_at > max(row.created_at, rollout.ordered_at)


def _ids(rows: Iterable[EngineInstanceRow]) -> str:
    return json.dumps(sorted(row.id for row in rows))
