"""Whether the new instances of a ring do as well as its old ones did: what decides if a rollout goes on. Pure.

:func:`judge_stage` is asked while a stage soaks (``stages.py``). It goes by figures, and by how the instances are that
tell them (``ring_health.py``). :func:`measure_past` is what figures are compared with.

Shares are compared with those that the ring's own instances had before: of Applications that were not compared in time,
and of tenants some of whose Applications fail, in a comparison or in their last sync. A share alone says little of few,
so more have to be affected than chance makes of the old share: three standard deviations, and two in a hundred besides.
Times (p95) may be twice the old, or half a minute longer. What was not told often enough is not judged: the gate waits.

What fails may fail because of what its tenant has committed, and nobody can tell: a comparison that fails names no
commit. So each tenant counts as one, however many Applications it has, and one alone says nothing of an instance. It
neither stops a rollout by what it breaks, nor makes the old share so large that what breaks for others passes. Of what
is late, and of times, agents leave out whichever tenant has the most (``services/agent/health/applications.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.ring_health import find_illness
from services.planner.domain.fleet.rollouts.ring_instances import Ring
from services.planner.domain.fleet.rollouts.ring_tenants import most_parts, tenants_of
from services.planner.domain.fleet.rollouts.rollout_rows import Figures, Rollout, together

DATA_PATIENCE = timedelta(minutes=30)
"""How long figures are waited for: of the ring's past, which is then left out, and beyond a soak, which has failed.

As long an ill instance may take to be well again, and one that is back may take to tell figures."""
FEWEST_SAMPLES = 3
"""Of each instance: agents tell one each minute."""
TOLERATED = 0.02
"""By so much a share may be larger."""
DEVIATIONS = 3.0
LEAST_SHARE = 0.01
"""Of which deviations are counted, though the ring's own past had none."""
TIMES, SLACK_MS = 2, 30_000
"""A p95 may be so many times as long, or so many milliseconds longer."""
FEWEST_FAILING = 2
"""Tenants, at all times that are looked at: what one alone has committed is not what an engine does."""
P95S: Mapping[str, str] = {
    "comparison_p95_ms": "since they were compared last",
    "sync_p95_ms": "for a sync",
}


class Verdict(NamedTuple):
    """Whether a rollout goes on after a stage, waits until it was told more, or has failed."""

    outcome: Literal["pass", "wait", "fail"]
    reason: str = ""
    """For operators; empty if it passes."""


PASSED = Verdict("pass")


def measure_past(ring: Ring, rollout: Rollout, fleet: Fleet) -> Figures:
    """Figures of the ring's old instances, which gates compare with from when the first tenant moves.

    A profile may set another interval of comparisons: how long ago these were says nothing then. Who is late does, as
    each instance's own interval decides that.
    """
    past = together(fleet.figures[row.id] for row in ring.sources if row.id in fleet.figures)
    if all((row.profile or "") == rollout.profile for row in ring.sources):
        return past
    return replace(past, comparison_p95_ms=None)


def judge_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Verdict:
    """What follows from figures, and from how the instances are that tell them; nothing is waited for if it is late.

    But for an illness that the old ones have, too: nothing can be told of the version while that lasts.
    """
    present = {each: fleet.figures.get(each, Figures()) for each in _instances_judged(rollout, fleet)}
    verdict = judge_figures(rollout.past, present, most_parts(rollout, fleet))
    if verdict.outcome == "fail":
        return verdict
    late = {each for each, figures in present.items() if now >= _late_at(rollout, each, figures, fleet)}
    illness = find_illness(rollout, fleet, now, DATA_PATIENCE, late)
    if illness.reason:
        return Verdict("fail" if illness.is_of_version else "wait", illness.reason)
    if verdict.outcome == "wait" and any(not is_enough(present[each]) for each in late):
        return Verdict("fail", f"too little was told in {now - rollout.step_since}: {verdict.reason}")
    return verdict


def _instances_judged(rollout: Rollout, fleet: Fleet) -> list[str]:
    """Ids of the new instances that have tenants: a gate asks for the figures of each."""
    return sorted({each.engine_instance_id for each in tenants_of(rollout, fleet).values()} & rollout.target_ids)


def _late_at(rollout: Rollout, instance: str, figures: Figures, fleet: Fleet) -> datetime:
    """When it is late for an instance that is ill, or has health too little, to let a stage pass.

    If it has health too little, or only its cordon is left, not before it has been as it is for :data:`DATA_PATIENCE`:
    until then the ring may have waited for another reason, such as that nobody reached it.
    """
    over, health = rollout.step_since + rollout.soak, fleet.health.get(instance)
    was_reached = is_enough(figures) and fleet.is_ill(instance)
    return (over if health is None or was_reached else max(over, health.since)) + DATA_PATIENCE


def judge_figures(past: Figures, present: Mapping[str, Figures], parts: int = 1) -> Verdict:
    """Whether a ring may go on by its figures: the worst that is said of one of its new instances.

    Args:
        past: of the ring's old instances, before the first tenant moved.
        present: of each new instance that has tenants, by its id, since the stage was reached.
        parts: on how many of these one tenant is, at most: each counts it.
    """
    for instance, figures in sorted(present.items()):
        if is_enough(figures) and (reason := _find_failure(past, figures)):
            return Verdict("fail", f"engine instance {instance}: {reason}")
    measured = {instance: figures for instance, figures in present.items() if is_enough(figures)}
    if reason := _find_failing_tenants(past, measured.values(), parts):
        return Verdict("fail", f"engine instances {', '.join(sorted(measured))}: {reason}")
    for instance, figures in sorted(present.items()):
        if figures.samples < FEWEST_SAMPLES:
            lacking = f"was measured {figures.samples} times since, and {FEWEST_SAMPLES} are needed"
            return Verdict("wait", f"engine instance {instance} {lacking}")
    return PASSED


def is_enough(figures: Figures) -> bool:
    """Whether these are of so many samples that they can be compared."""
    return figures.samples >= FEWEST_SAMPLES


def most_affected(total: float, past_share: float) -> float:
    """How many of so many Applications, or tenants, may be affected if the share is still what it was."""
    share = max(past_share, LEAST_SHARE)
    deviation = math.sqrt(total * share * (1 - share))
    return total * (past_share + TOLERATED) + DEVIATIONS * deviation


def _find_failure(past: Figures, present: Figures) -> str:
    """The first that is worse than it may be; empty if nothing is."""
    late, applications = present.late / present.samples, present.applications / present.samples
    before = _share(past.late, past.applications)
    if late > most_affected(applications, before):
        affected = f"{late:.1f} of {applications:.1f} Applications were not compared in time"
        return f"{affected}, and {before:.1%} of the ring's were not before"
    if reason := _find_failing_tenants(past, [present]):
        return reason
    for name, words in P95S.items():
        now, was = getattr(present, name), getattr(past, name)
        if now is not None and was is not None and now > max(TIMES * was, was + SLACK_MS):
            return f"a p95 of {now / 1000:.0f} s {words}, and the ring's was {was / 1000:.0f} s before"
    return ""


def _find_failing_tenants(past: Figures, present: Collection[Figures], parts: int = 1) -> str:
    """Whether more tenants fail on these instances together than may, in words; empty: no, or nobody counted before."""
    if past.applications and not past.tenants:
        return ""
    failing, tenants, uncompared, unsynced, applications = (
        sum(getattr(each, name) / each.samples for each in present)
        for name in ("failing_tenants", "tenants", "comparison_errors", "failed_syncs", "applications")
    )
    before = _share(past.failing_tenants, past.tenants)
    different = failing - (parts - 1)
    if different < FEWEST_FAILING or different <= most_affected(tenants, before):
        return ""
    return (
        f"Applications of {failing:.1f} of {tenants:.1f} tenants fail, and of {before:.1%} of the ring's before: "
        f"{uncompared:.1f} of {applications:.1f} could not be compared, {unsynced:.1f} have failed in their last sync"
    )


def _share(affected: int, total: int) -> float:
    return affected / total if total else 0.0
