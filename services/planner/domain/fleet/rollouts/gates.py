"""Whether the new instances of a ring do as well as its old ones did: what decides if a rollout goes on. Pure.

Shares of Applications are compared with those that the ring's own instances had before: not compared in time, last sync
failed, comparison failed. A share alone says little of few Applications, so more have to be affected than chance makes
of the old share: three standard deviations, and two in a hundred besides. Times (p95) may be twice the old, or half a
minute longer. What was not told often enough is not judged: the gate waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from services.planner.domain.fleet.rollouts.rollout_rows import Figures

FEWEST_SAMPLES = 3
"""Of each instance: agents tell one each minute."""
TOLERATED = 0.02
"""By so much of all Applications a share may be larger."""
DEVIATIONS = 3.0
LEAST_SHARE = 0.01
"""Of which deviations are counted, though the ring's own past had none."""
TIMES, SLACK_MS = 2, 30_000
"""A p95 may be so many times as long, or so many milliseconds longer."""
SHARES: Mapping[str, str] = {
    "late": "were not compared in time",
    "failed_syncs": "have failed in their last sync",
    "comparison_errors": "could not be compared",
}
P95S: Mapping[str, str] = {
    "comparison_p95_ms": "since they were compared last",
    "sync_p95_ms": "for a sync",
}


class Verdict(NamedTuple):
    """What a gate says."""

    outcome: Literal["pass", "wait", "fail"]
    reason: str = ""
    """For operators; empty if it passes."""


PASSED = Verdict("pass")


def judge(past: Figures, present: Mapping[str, Figures]) -> Verdict:
    """Whether a ring may go on: the worst that is said of one of its new instances.

    Args:
        past: of the ring's old instances, before the first tenant moved.
        present: of each new instance that has tenants, by its id, since the stage was reached.
    """
    for instance, figures in sorted(present.items()):
        if figures.samples >= FEWEST_SAMPLES and (reason := _failure(past, figures)):
            return Verdict("fail", f"engine instance {instance}: {reason}")
    for instance, figures in sorted(present.items()):
        if figures.samples < FEWEST_SAMPLES:
            told = f"was measured {figures.samples} times since, and {FEWEST_SAMPLES} are needed"
            return Verdict("wait", f"engine instance {instance} {told}")
    return PASSED


def is_enough(figures: Figures) -> bool:
    """Whether something can be compared with these."""
    return figures.samples >= FEWEST_SAMPLES


def most_affected(applications: float, past_share: float) -> float:
    """How many Applications of so many may be affected if the share is still what it was."""
    share = max(past_share, LEAST_SHARE)
    deviation = math.sqrt(applications * share * (1 - share))
    return applications * (past_share + TOLERATED) + DEVIATIONS * deviation


def _failure(past: Figures, present: Figures) -> str:
    """The first that is worse than it may be; empty if nothing is."""
    applications = present.applications / present.samples
    for name, words in SHARES.items():
        affected, before = getattr(present, name) / present.samples, _share(past, name)
        if affected > most_affected(applications, before):
            return (
                f"{affected:.1f} of {applications:.1f} Applications {words}, and {before:.1%} of the ring's did before"
            )
    for name, words in P95S.items():
        now, was = getattr(present, name), getattr(past, name)
        if now is not None and was is not None and now > max(TIMES * was, was + SLACK_MS):
            return f"a p95 of {now / 1000:.0f} s {words}, and the ring's was {was / 1000:.0f} s before"
    return ""


def _share(figures: Figures, name: str) -> float:
    return float(getattr(figures, name) / figures.applications) if figures.applications else 0.0
