"""Whether a ring may go on: what is said of figures, and of too few of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.planner.domain.fleet.rollouts.gates import FEWEST_SAMPLES, judge_figures, most_affected
from services.planner.domain.fleet.rollouts.rollout_rows import NO_FIGURES, Figures, together

PAST = Figures(60, 6000, 60, 120, 120, 90_000, 4_000, tenants=3000, failing_tenants=60)
"""An hour of fifty tenants' hundred Applications: one of these is late at any time, and those of one tenant fail."""
WELL = Figures(10, 1000, 10, 20, 20, 90_000, 4_000, tenants=500, failing_tenants=10)
FEW = Figures(4, 4, 0, 0, 0, 1000, tenants=4)

CASES: dict[str, tuple[Figures, Figures, str, str]] = {
    "as before": (PAST, WELL, "pass", ""),
    "better": (PAST, replace(WELL, late=0, failing_tenants=0), "pass", ""),
    "a few more are late": (PAST, replace(WELL, late=40), "pass", ""),
    "many are late": (PAST, replace(WELL, late=200), "fail", "20.0 of 100.0 Applications were not compared in time"),
    "many tenants fail": (
        PAST, replace(WELL, failed_syncs=300, comparison_errors=150, failing_tenants=100), "fail",
        "Applications of 10.0 of 50.0 tenants fail, and of 2.0% of the ring's before: 15.0 of 100.0 could not be "
        "compared, 30.0 have failed in their last sync",
    ),
    "a few more tenants fail": (PAST, replace(WELL, failing_tenants=40), "pass", ""),
    "all Applications of one tenant": (PAST, replace(WELL, failed_syncs=500, comparison_errors=500), "pass", ""),
    "compared half as often": (PAST, replace(WELL, comparison_p95_ms=180_000), "pass", ""),
    "compared rarely": (PAST, replace(WELL, comparison_p95_ms=181_000), "fail", "181 s since they were compared last"),
    "syncs take long": (PAST, replace(WELL, sync_p95_ms=35_000), "fail", "35 s for a sync, and the ring's was 4"),
    "syncs take a little longer": (PAST, replace(WELL, sync_p95_ms=34_000), "pass", ""),
    "no sync": (PAST, replace(WELL, sync_p95_ms=None), "pass", ""),
    "no past": (NO_FIGURES, replace(WELL, late=0, failing_tenants=20), "pass", ""),
    "no past, and many fail": (NO_FIGURES, replace(WELL, late=0, failing_tenants=50), "fail", "of 5.0 of 50.0 tenants"),
    "one tenant that is well": (PAST, FEW, "pass", ""),
    "one tenant, and it fails": (PAST, replace(FEW, failed_syncs=4, failing_tenants=4), "pass", ""),
    "one of two tenants fails": (PAST, replace(FEW, tenants=8, failing_tenants=4), "pass", ""),
    "one of two tenants fails, and the other at times": (
        PAST, replace(FEW, tenants=8, failing_tenants=7), "pass", ""
    ),
    "many tenants fail, and nobody counted them before": (
        replace(PAST, tenants=0, failing_tenants=0), replace(WELL, failing_tenants=500), "pass", ""
    ),
    "both of two tenants fail": (PAST, replace(FEW, tenants=8, failing_tenants=8), "fail", "of 2.0 of 2.0 tenants"),
    "all of three tenants fail": (PAST, replace(FEW, tenants=12, failing_tenants=12), "fail", "of 3.0 of 3.0 tenants"),
    "two of a ring where many fail": (
        replace(PAST, failing_tenants=1500), replace(FEW, tenants=8, failing_tenants=8), "pass", ""
    ),
    "an agent that tells of no tenants": (PAST, replace(WELL, tenants=0, failing_tenants=0), "pass", ""),
    "no Application": (PAST, Figures(3), "pass", ""),
    "told too rarely": (PAST, replace(WELL, samples=2), "wait", "was measured 2 times since, and 3 are needed"),
    "told nothing": (PAST, NO_FIGURES, "wait", "was measured 0 times"),
    "told too rarely, and badly": (PAST, Figures(2, 2, 2, 2, 2), "wait", "was measured 2 times"),
}  # fmt: skip


@pytest.mark.parametrize(("past", "present", "outcome", "words"), CASES.values(), ids=CASES)
def test_gate_when_figures_are_told_then_it_says_what_is_worse_than_before(
    past: Figures, present: Figures, outcome: str, words: str
) -> None:
    verdict = judge_figures(past, {"new": present})
    assert verdict.outcome == outcome
    assert words in verdict.reason


def test_gate_when_one_of_many_instances_is_worse_then_the_others_do_not_hide_it() -> None:
    verdict = judge_figures(PAST, {"a": WELL, "b": replace(WELL, late=500), "c": NO_FIGURES})
    assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("fail", "engine instance b")


def test_gate_when_one_tenant_fails_on_each_of_several_new_instances_then_they_are_counted_together() -> None:
    failing = replace(FEW, failing_tenants=4)
    verdict = judge_figures(PAST, {"a": failing, "b": failing, "c": FEW})
    assert verdict.outcome == "fail"
    assert verdict.reason.startswith("engine instances a, b, c: Applications of 2.0 of 3.0 tenants fail")
    assert judge_figures(PAST, {"a": failing, "b": FEW, "c": FEW}).outcome == "pass"


def test_gate_when_a_tenant_may_be_on_several_new_instances_then_it_counts_as_one() -> None:
    failing = replace(FEW, failing_tenants=4)
    assert judge_figures(PAST, {"a": failing, "b": failing}, parts=2).outcome == "pass"
    assert judge_figures(PAST, {"a": failing, "b": failing, "c": failing}, parts=2).outcome == "fail"


def test_gate_when_a_tenant_has_failed_before_with_all_it_has_then_that_hides_nobody_else() -> None:
    past = replace(PAST, applications=6000, failed_syncs=3000, comparison_errors=3000)
    all_others = replace(FEW, applications=20, comparison_errors=20, tenants=20, failing_tenants=20)
    assert judge_figures(past, {"new": all_others}).outcome == "fail"


def test_gate_when_no_new_instance_has_tenants_then_it_passes() -> None:
    assert judge_figures(PAST, {}).outcome == "pass"


def test_bound_when_applications_are_many_then_it_comes_closer_to_the_share_of_before() -> None:
    shares = [most_affected(count, 0.05) / count for count in (1, 10, 100, 1000, 10_000)]
    assert shares == sorted(shares, reverse=True)
    assert 0.07 < shares[-1] < 0.08


def test_figures_when_put_together_then_counts_are_summed_and_the_longest_time_stays() -> None:
    assert together([WELL, replace(WELL, sync_p95_ms=None, comparison_p95_ms=95_000)]) == Figures(
        20, 2000, 20, 40, 40, 95_000, 4_000, tenants=1000, failing_tenants=20
    )
    assert together([]) == NO_FIGURES
    assert FEWEST_SAMPLES > 1
