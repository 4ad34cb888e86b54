"""What counts as in sync with a commit, and what is made of the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bench.commits import Outcome, Overhead, Pair, Round, by_hand, commit_of, overhead, rows, tell_outcomes
from services.common.ownership import OURS


def application(sync: str = "Synced", revision: str = "b", phase: str = "Succeeded", synced: str = "b") -> Any:
    operation = {"phase": phase, "syncResult": {"revision": synced}}
    return {"status": {"sync": {"status": sync, "revision": revision}, "operationState": operation}}


def test_application_when_its_last_sync_succeeded_at_what_was_compared_then_that_is_its_commit() -> None:
    assert commit_of(application()) == "b"


@pytest.mark.parametrize(
    "changed",
    [{"sync": "OutOfSync"}, {"phase": "Running"}, {"synced": "a"}, {"revision": "a"}],
    ids=["compared, not synced", "being synced", "synced before", "compared before"],
)
def test_application_when_something_is_to_be_done_yet_then_it_has_none(changed: dict[str, str]) -> None:
    assert commit_of(application(**changed)) == ""


def test_application_when_argocd_has_not_seen_it_then_it_has_none() -> None:
    assert commit_of({}) == ""


def test_application_when_copied_then_its_spec_is_the_same_of_a_tenant_that_none_of_ours_knows() -> None:
    spec = {
        "project": "app-project-1",
        "source": {"repoURL": "https://git/public/commits-007.git", "path": "app-1"},
        "destination": {"name": "in-cluster", "namespace": "commits-007"},
        "syncPolicy": {"retry": {"limit": -1}},
    }
    marks = {"labels": OURS, "annotations": {"any": "thing"}, "uid": "1"}
    original = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "gitopsdepl-1", "namespace": "argocd", **marks},
        "spec": spec,
        "status": {"sync": {}},
    }
    assert by_hand(original) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "by-hand-gitopsdepl-1", "namespace": "argocd"},
        "spec": spec
        | {
            "project": "by-hand-app-project-1",
            "source": {"repoURL": "https://git/public/by-hand-007.git", "path": "app-1"},
            "destination": {"name": "in-cluster", "namespace": "by-hand-007"},
        },
    }


def test_pairs_when_shown_then_with_their_spread_and_with_what_ours_take_more() -> None:
    pairs = [
        Pair(ours=Round(2.2, 4, 7, 3), by_hand=Round(2, 3, 6, 2)),
        Pair(ours=Round(4.4, 6, 9, 3), by_hand=Round(4, 5, 8, 2)),
        Pair(ours=Round(3.3, 5, 8, 3), by_hand=Round(3, 4, 7, 2)),
    ]
    found = overhead(pairs)
    assert found.mean == pytest.approx(0.1)
    assert found.error == pytest.approx(0.1 / 3 / 3**0.5)
    assert list(rows({2: pairs})) == [
        ("2", "mean, s", "3.00 ± 1.00", "3.30 ± 1.10", "+10.0% ± 3.8%"),
        ("2", "all, s", "4.00 ± 1.00", "5.00 ± 1.00", "+25.0% ± 0.0%"),
        ("2", "CPU of Argo CD, s", "7.00 ± 1.00", "8.00 ± 1.00", "+14.3% ± 0.0%"),
        ("2", "CPU of its API server, s", "2.00 ± 0.00", "3.00 ± 0.00", "+50.0% ± 0.0%"),
    ]


OUTCOMES: dict[str, tuple[Overhead, Outcome]] = {
    "less": (Overhead(0.04, 0.001), "kept"),
    "less, and exactly so with what may be chance": (Overhead(0.0, 0.025), "kept"),
    "less, as it may be by chance": (Overhead(0.017, 0.031), "undecided"),
    "nothing, but nobody knows": (Overhead(0.0, 0.5), "undecided"),
    "more, as it may be by chance": (Overhead(0.06, 0.01), "undecided"),
    "more": (Overhead(0.06, 0.001), "exceeded"),
    "more, whatever chance makes of it": (Overhead(0.10, 0.02), "exceeded"),
}


@pytest.mark.parametrize(("found", "outcome"), OUTCOMES.values(), ids=OUTCOMES)
def test_bound_when_measured_then_it_is_kept_or_exceeded_only_if_chance_is_not_the_cause(
    found: Overhead, outcome: Outcome
) -> None:
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("errors", "code"),
    [((0.001, 0.001), 0), ((0.001, 0.031), 1)],
    ids=["all kept", "one undecided"],
)
def test_measurement_when_it_is_over_then_it_succeeds_only_if_the_bound_is_kept_on_every_number_of_instances(
    capsys: pytest.CaptureFixture[str], errors: Sequence[float], code: int
) -> None:
    assert tell_outcomes({number: Overhead(0.01, error) for number, error in enumerate(errors, start=1)}) == code
    told = capsys.readouterr().out.splitlines()
    assert ["--pairs" in line for line in told] == [error > 0.01 for error in errors]
