"""Whether the new instances of a ring do as well as its old ones did: the gate of a stage. Pure.

:func:`judge_stage` is called while a stage soaks (``stages.py``). It judges the figures that agents report, and the
health of the new instances (``ring_health.py``). :func:`measure_past` returns the figures that it compares with.

Two shares are compared with those of the ring's old instances: of Applications that were not compared in time, and of
tenants with an Application whose comparison or last sync failed. A share of few says little. So more have to be
affected than chance makes of the old share: three standard deviations more, and another two in a hundred. A time (p95)
may be twice the old one, or half a minute longer. If an instance has reported too few samples, the gate waits.

An Application may fail because of what its tenant has committed, and a failed comparison does not name the commit. So
each tenant counts once, however many Applications it has, and one failing tenant says nothing about an instance. By
what it breaks, a tenant neither stops a rollout, nor makes the old share so large that failures of others pass. Agents
leave the tenant with the most late Applications, and the one with the longest times, out of those figures
(``services/agent/health/applications.py``).
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
"""How long to wait for figures: for those of the past, before the stage goes on without them; and for those of the
present after a soak, before the gate fails. An ill instance may take as long to be well again."""
FEWEST_SAMPLES = 3
"""Samples of each instance that a gate needs. Agents report one each minute."""
TOLERATED = 0.02
"""By how much a share may be larger than the old one."""
DEVIATIONS = 3.0
LEAST_SHARE = 0.01
"""Deviations are counted of this share at least, even if the old share was smaller."""
TIMES, SLACK_MS = 2, 30_000
"""A p95 may be so many times as long, or so many milliseconds longer."""
FEWEST_FAILING = 2
"""Tenants that fail before a gate does: one alone may fail by what it has committed."""
P95S: Mapping[str, str] = {
    "comparison_p95_ms": "since they were compared last",
    "sync_p95_ms": "for a sync",
}


class Verdict(NamedTuple):
    """Whether a rollout goes on after a stage, waits for more figures, or has failed."""

    outcome: Literal["pass", "wait", "fail"]
    reason: str = ""
    """For operators; empty if it passes."""


PASSED = Verdict("pass")


def measure_past(ring: Ring, rollout: Rollout, fleet: Fleet) -> Figures:
    """Figures of the ring's old instances before the first tenant moves, which gates compare with.

    If the rollout brings another profile, the time since the last comparison is left out, because a profile may set
    another interval of comparisons. How many are late is kept: that is by each instance's own interval.
    """
    past = together(fleet.figures[row.id] for row in ring.sources if row.id in fleet.figures)
    if all((row.profile or "") == rollout.profile for row in ring.sources):
        return past
    return replace(past, comparison_p95_ms=None)


def judge_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Verdict:
    """The verdict on a stage by the figures and the health of its new instances.

    A gate that waits fails when an instance is late: it is ill, or has reported too little, for too long. It goes on
    waiting while the old instances are ill, too, because then nothing says that the version is the cause.
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
    """Ids of the new instances with tenants, whose figures the gate needs."""
    return sorted({each.engine_instance_id for each in tenants_of(rollout, fleet).values()} & rollout.target_ids)


def _late_at(rollout: Rollout, instance: str, figures: Figures, fleet: Fleet) -> datetime:
    """When an instance that is ill or cordoned, or has reported too little, is late: the stage waits no longer then.

    If it is only cordoned, or has reported too little, its health also has to be what it is for :data:`DATA_PATIENCE`:
    until then the ring may have waited for another reason, for example that the instance was out of reach.
    """
    over, health = rollout.step_since + rollout.soak, fleet.health.get(instance)
    was_reached = is_enough(figures) and fleet.is_ill(instance)
    return (over if health is None or was_reached else max(over, health.since)) + DATA_PATIENCE


def judge_figures(past: Figures, present: Mapping[str, Figures], parts: int = 1) -> Verdict:
    """The worst verdict on one of the new instances, or on all of them together, by their figures.

    Args:
        past: figures of the ring's old instances, before the first tenant moved.
        present: figures of each new instance with tenants, by its id, since the stage was reached.
        parts: on how many of these one tenant is, at most. Each of them counts the tenant.
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
    """Whether the figures are of enough samples to be compared."""
    return figures.samples >= FEWEST_SAMPLES


def most_affected(total: float, past_share: float) -> float:
    """How many of ``total`` Applications or tenants may be affected if the share is still ``past_share``."""
    share = max(past_share, LEAST_SHARE)
    deviation = math.sqrt(total * share * (1 - share))
    return total * (past_share + TOLERATED) + DEVIATIONS * deviation


def _find_failure(past: Figures, present: Figures) -> str:
    """What is worse than it may be, in words: the first of all; empty if nothing is."""
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
    """In words, that more tenants fail on these instances than may; empty if not, or if nobody counted them before."""
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
