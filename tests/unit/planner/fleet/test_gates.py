"""Whether a ring may go on: what is said of figures, and of too few of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.planner.domain.fleet.rollouts.gates import FEWEST_SAMPLES, judge, most_affected
from services.planner.domain.fleet.rollouts.rollout_rows import NO_FIGURES, Figures, together

PAST = Figures(60, 6000, 60, 120, 120, 90_000, 4_000)
"""An hour of a hundred Applications: one of them is late at any time, and two fail."""
WELL = Figures(10, 1000, 10, 20, 20, 90_000, 4_000)
FEW = Figures(3, 3, 0, 0, 0, 1000)

CASES: dict[str, tuple[Figures, Figures, str, str]] = {
    "as before": (PAST, WELL, "pass", ""),
    "better": (PAST, replace(WELL, late=0, failed_syncs=0), "pass", ""),
    "a few more are late": (PAST, replace(WELL, late=40), "pass", ""),
    "many are late": (PAST, replace(WELL, late=200), "fail", "20.0 of 100.0 Applications were not compared in time"),
    "syncs fail": (PAST, replace(WELL, failed_syncs=300), "fail", "have failed in their last sync, and 2.0% of the"),
    "comparisons fail": (PAST, replace(WELL, comparison_errors=300), "fail", "could not be compared"),
    "compared half as often": (PAST, replace(WELL, comparison_p95_ms=180_000), "pass", ""),
    "compared rarely": (PAST, replace(WELL, comparison_p95_ms=181_000), "fail", "181 s since they were compared last"),
    "syncs take long": (PAST, replace(WELL, sync_p95_ms=35_000), "fail", "35 s for a sync, and the ring's was 4"),
    "syncs take a little longer": (PAST, replace(WELL, sync_p95_ms=34_000), "pass", ""),
    "no sync": (PAST, replace(WELL, sync_p95_ms=None), "pass", ""),
    "no past": (NO_FIGURES, replace(WELL, late=0, failed_syncs=10, comparison_errors=10), "pass", ""),
    "no past, and many fail": (NO_FIGURES, replace(WELL, failed_syncs=100), "fail", "10.0 of 100.0 Applications"),
    "one Application that is well": (PAST, FEW, "pass", ""),
    "one Application that fails": (PAST, replace(FEW, comparison_errors=3), "fail", "1.0 of 1.0 Applications"),
    "one Application that failed once": (PAST, replace(FEW, comparison_errors=1), "pass", ""),
    "one of a ring where many fail": (replace(PAST, failed_syncs=2400), replace(FEW, failed_syncs=3), "pass", ""),
    "no Application": (PAST, Figures(3), "pass", ""),
    "told too rarely": (PAST, replace(WELL, samples=2), "wait", "was measured 2 times since, and 3 are needed"),
    "told nothing": (PAST, NO_FIGURES, "wait", "was measured 0 times"),
    "told too rarely, and badly": (PAST, Figures(2, 2, 2, 2, 2), "wait", "was measured 2 times"),
}  # fmt: skip


@pytest.mark.parametrize(("past", "present", "outcome", "words"), CASES.values(), ids=CASES)
def test_gate_when_figures_are_told_then_it_says_what_is_worse_than_before(
    past: Figures, present: Figures, outcome: str, words: str
) -> None:
    verdict = judge(past, {"new": present})
    assert verdict.outcome == outcome
    assert words in verdict.reason


def test_gate_when_one_of_many_instances_is_worse_then_the_others_do_not_hide_it() -> None:
    verdict = judge(PAST, {"a": WELL, "b": replace(WELL, late=500), "c": NO_FIGURES})
    assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("fail", "engine instance b")


def test_gate_when_no_new_instance_has_tenants_then_it_passes() -> None:
    assert judge(PAST, {}).outcome == "pass"


def test_bound_when_applications_are_many_then_it_comes_closer_to_the_share_of_before() -> None:
    shares = [most_affected(count, 0.05) / count for count in (1, 10, 100, 1000, 10_000)]
    assert shares == sorted(shares, reverse=True)
    assert 0.07 < shares[-1] < 0.08


def test_figures_when_put_together_then_counts_are_summed_and_the_longest_time_stays() -> None:
    assert together([WELL, replace(WELL, sync_p95_ms=None, comparison_p95_ms=95_000)]) == Figures(
        20, 2000, 20, 40, 40, 95_000, 4_000
    )
    assert together([]) == NO_FIGURES
    assert FEWEST_SAMPLES > 1
