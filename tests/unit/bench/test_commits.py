"""What counts as in sync with a commit, and what is made of the rounds."""

from __future__ import annotations

from typing import Any

import pytest

from bench.commits import Round, commit_of, overhead, rows


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


def test_rounds_when_shown_then_by_their_medians_and_with_what_ours_take_more() -> None:
    ours, by_hand = [Round(2.1, 4), Round(2.2, 6), Round(9, 9)], [Round(2, 3), Round(2, 5), Round(1, 9)]
    assert overhead(ours, by_hand) == pytest.approx(0.1)
    assert list(rows({2: (ours, by_hand)})) == [("2", "2.20", "2.00", "6.00", "5.00", "+10.0%")]
