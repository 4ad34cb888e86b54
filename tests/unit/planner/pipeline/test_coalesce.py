"""Only the newest state of a resource counts, and order is kept where it matters."""

from __future__ import annotations

import pytest

from services.common.messages import Checked, SyncMoved
from services.planner.domain.events import Event
from services.planner.pipeline.coalesce import coalesce
from tests.unit.planner.given import Applied, Failed, Removed, changed, gone, observed, resync, status

A1, A2, A3 = (changed(number) for number in (1, 2, 3))
B1 = changed(1, "other", uid="uid-9")
GONE = gone(4)
REVIVED = changed(7, epoch=2)
MARKER = resync(5, epoch=5)
MARKER_ELSEWHERE = resync(5, epoch=5, partition=1)
S1, S2, S3 = (observed(number, status(number), instance="e") for number in (1, 2, 3))
APPLIED = observed(1, Applied("d"), instance="e")
FAILED = observed(2, Failed("d", permanent=False, message=""), instance="e")
REMOVED = observed(3, Removed(forced=False), instance="e")
RECREATED = changed(6, uid="uid-2")
OLDER = observed(4, Applied("older"), instance="e")
CHECKED, CHECKED_OLDER = (observed(5, Checked(digest, "Succeeded", ""), instance="e") for digest in ("d", "older"))
RUNNING, ENDED, LATE = (
    observed(second, SyncMoved("uid-now", phase, "", "", "", ""), instance="e", kind="SyncOperation")
    for second, phase in ((1, "Running"), (2, "Failed"), (3, "Running"))
)
ELSEWHERE = [
    observed(4, SyncMoved("uid-now", "Running", "", "", "", ""), kind="SyncOperation", **place)
    for place in ({"instance": "e", "namespace": "team-b"}, {"instance": "zombie"})
]


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        pytest.param([A1, A2, A3], [A3], id="newest-state"),
        pytest.param([A1, B1, A2], [B1, A2], id="newest-keeps-its-own-place"),
        pytest.param([A3, A1], [A3], id="late-one-is-dropped"),
        pytest.param([A1, GONE], [GONE], id="the-end-replaces-the-rest"),
        pytest.param([GONE, A1], [GONE, A1], id="one-that-is-back-is-late-or-restored"),
        pytest.param([GONE, REVIVED, gone(8)], [REVIVED, gone(8)], id="one-that-was-back-and-is-gone-again"),
        pytest.param([A1, GONE, RECREATED], [GONE, RECREATED], id="incarnations-are-apart"),
        pytest.param([A1, MARKER, A2], [A1, MARKER, A2], id="nothing-across-a-marker"),
        pytest.param([A1, MARKER_ELSEWHERE, A2], [MARKER_ELSEWHERE, A2], id="markers-are-of-their-partition"),
        pytest.param([MARKER, MARKER], [MARKER, MARKER], id="markers-stay"),
        pytest.param([S1, S2, S3], [S3], id="newest-status"),
        pytest.param([S3, S1], [S3], id="late-status-is-dropped"),
        pytest.param([APPLIED, FAILED], [FAILED], id="newest-outcome"),
        pytest.param([S1, APPLIED, REMOVED], [S1, APPLIED, REMOVED], id="aspects-are-apart"),
        pytest.param([APPLIED, OLDER], [APPLIED, OLDER], id="outcomes-are-of-their-manifest"),
        pytest.param([CHECKED, CHECKED_OLDER], [CHECKED, CHECKED_OLDER], id="checks-are-of-their-manifest"),
        pytest.param([RUNNING, ENDED], [ENDED], id="newest-of-a-sync"),
        pytest.param([ENDED, LATE], [ENDED], id="the-end-of-a-sync-stays"),
        pytest.param([ENDED, *ELSEWHERE], [ENDED, *ELSEWHERE], id="others-do-not-speak-of-this-sync"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_events_when_coalesced_then_only_what_counts_is_kept_in_order(events: list[Event], kept: list[Event]) -> None:
    assert list(coalesce(events)) == kept


def test_change_when_the_newer_one_has_an_older_epoch_then_the_newer_epoch_is_kept() -> None:
    (kept,) = coalesce([changed(1, epoch=9), changed(2, epoch=3)])
    assert kept == changed(2, epoch=9)
