"""What is done about a sync that was asked for, as a table of what an Application shows."""

from __future__ import annotations

from typing import Any

import pytest

from services.agent.objects.live import LiveObject, live_object
from services.agent.objects.managed_kinds import APPLICATION_KIND
from services.agent.reconcile.sync_steps import (
    DELETED,
    LOST,
    NoStep,
    PatchApplication,
    ReportProgress,
    SyncRequest,
    SyncStep,
    next_sync_step,
    sync_request,
)
from services.common.errors import Permanent
from services.common.messages import SyncMoved

NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T23:59:00Z"
OURS = {"sync": {"revision": "main"}, "info": [{"name": "gitops-sync-run", "value": "run-1"}]}
THEIRS = {"sync": {}, "initiatedBy": {"username": "admin"}}
EARLIER_RUN = {"sync": {"revision": "main"}, "info": [{"name": "gitops-sync-run", "value": "run-0"}]}


def request(terminated: bool = False, sequence: int = 2, begun: bool = False) -> SyncRequest:
    return SyncRequest("run-1", sequence, "main", terminated, begun)


def live(
    sequence: int | str | None = None,
    operation: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    going: bool = False,
) -> LiveObject:
    meta: dict[str, Any] = {"uid": "u", "resourceVersion": "7", "name": "app", "namespace": "argocd"}
    if sequence is not None:
        meta["annotations"] = {"managed-gitops.redhat.com/sync-sequence": str(sequence)}
    if going:
        meta["deletionTimestamp"] = NOW
    manifest: dict[str, Any] = {"metadata": meta, "spec": {"syncPolicy": {"syncOptions": ["CreateNamespace=true"]}}}
    if operation is not None:
        manifest["operation"] = operation
    if state is not None:
        manifest["status"] = {"operationState": state}
    return live_object(APPLICATION_KIND, manifest)


def running(operation: dict[str, Any] = OURS, phase: str = "Running", **more: Any) -> dict[str, Any]:
    return {"operation": operation, "phase": phase, "startedAt": EARLIER} | more


def move(asked: SyncRequest, found: LiveObject | None, known: SyncMoved | None = None, begun: str = "") -> SyncStep:
    return next_sync_step(asked, found, known, begun, NOW)


def test_sync_when_nothing_is_in_progress_then_one_patch_starts_and_counts_it() -> None:
    decided = move(request(), live())
    assert decided == PatchApplication(
        {
            "metadata": {
                "resourceVersion": "7",
                "annotations": {"managed-gitops.redhat.com/sync-sequence": "2"},
            },
            "operation": {
                "sync": {
                    "prune": False,
                    "syncStrategy": {"hook": {}},
                    "revision": "main",
                    "syncOptions": ["CreateNamespace=true"],
                },
                "info": [{"name": "gitops-sync-run", "value": "run-1"}],
                "initiatedBy": {"username": "gitops-service"},
                "retry": {},
            },
        },
        starts=True,
    )


def test_sync_when_an_earlier_one_has_left_its_state_then_starting_clears_it() -> None:
    decided = move(request(), live(1, state=running(THEIRS, "Succeeded")))
    assert isinstance(decided, PatchApplication)
    assert decided.patch["status"] == {"operationState": None}


@pytest.mark.parametrize(
    ("found", "is_withdrawn"),
    [
        pytest.param(live(1, EARLIER_RUN, running(EARLIER_RUN)), False, id="an earlier run"),
        pytest.param(live(1, state=running(EARLIER_RUN)), True, id="an earlier run, withdrawn"),
        pytest.param(live(1, state=running(THEIRS)), True, id="somebody else's, withdrawn"),
        pytest.param(live(1, state=running(THEIRS, "Terminating")), True, id="terminating, withdrawn"),
    ],
)
def test_sync_when_what_runs_is_over_for_everybody_then_that_is_ended_first(
    found: LiveObject, is_withdrawn: bool
) -> None:
    decided = move(request(), found)
    assert isinstance(decided, PatchApplication)
    assert not decided.starts
    assert decided.patch["status"] == {"operationState": {"phase": "Terminating"}}
    assert ("operation" in decided.patch) == is_withdrawn
    assert "run-1" not in str(decided.patch)


@pytest.mark.parametrize(
    "found",
    [
        live(operation=THEIRS),
        live(operation={}),
        live(operation=THEIRS, state=running(THEIRS)),
        live(1, THEIRS, running(THEIRS, "Terminating")),
        live(1, EARLIER_RUN, running(EARLIER_RUN, "Terminating")),
        live(1, THEIRS, running(EARLIER_RUN, "Failed")),
        live(2, operation=OURS),
        None,
        live(going=True),
    ],
    ids=[
        "asked for",
        "asked for emptily",
        "running",
        "terminating",
        "an earlier run terminating",
        "asked for after an earlier run",
        "ours not taken yet",
        "missing",
        "going",
    ],
)
def test_sync_when_it_can_neither_start_nor_be_seen_then_it_rests(found: LiveObject | None) -> None:
    assert move(request(), found) == NoStep()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (running(), SyncMoved("run-1", "Running", "", "", EARLIER, "")),
        (
            running(message="waiting", syncResult={"revision": "abc"}, finishedAt=EARLIER),
            SyncMoved("run-1", "Running", "waiting", "abc", EARLIER, ""),
        ),
        (running(phase="Failed", message="no", finishedAt=NOW), SyncMoved("run-1", "Failed", "no", "", EARLIER, NOW)),
        (running(phase="Succeeded"), SyncMoved("run-1", "Succeeded", "", "", EARLIER, NOW)),
    ],
    ids=["running", "running, between two attempts", "failed", "ended without a time"],
)
def test_sync_when_argo_cd_runs_it_then_its_state_is_told(state: dict[str, Any], told: SyncMoved) -> None:
    assert move(request(), live(2, state=state)) == ReportProgress(told)


@pytest.mark.parametrize("found", [live(2), live(3, state=running(THEIRS)), live(2, operation=THEIRS)])
def test_sync_when_it_was_started_and_nothing_of_it_is_left_then_it_ends_with_an_unknown_outcome(
    found: LiveObject,
) -> None:
    assert move(request(), found) == ReportProgress(SyncMoved("run-1", "Error", LOST, "", "", NOW))


@pytest.mark.parametrize("sequence", ["x", "9" * 30, "-1", ""])
def test_sequence_when_somebody_wrote_nonsense_then_it_counts_as_none(sequence: str) -> None:
    decided = move(request(), live(sequence))
    assert isinstance(decided, PatchApplication)


def test_ended_sync_when_looked_at_again_then_nothing_follows() -> None:
    ended = SyncMoved("run-1", "Succeeded", "", "", EARLIER, NOW)
    for found in (None, live(), live(2, state=running(THEIRS))):
        assert move(request(), found, known=ended) == NoStep()


def test_begun_sync_when_its_application_is_deleted_then_it_ends() -> None:
    known = SyncMoved("run-1", "Running", "", "abc", EARLIER, "")
    ended = SyncMoved("run-1", "Error", DELETED, "abc", EARLIER, NOW)
    assert move(request(), None, known, "u") == ReportProgress(ended, presumed=True)
    assert isinstance(told := move(request(), live(2, going=True)), ReportProgress)
    assert told.moved == SyncMoved("run-1", "Error", DELETED, "", "", NOW)


@pytest.mark.parametrize(
    ("asked", "found", "begun"),
    [
        (request(), None, "u"),
        (request(), live(), "former"),
        (request(begun=True), None, ""),
        (request(begun=True), live(), ""),
        (request(begun=True), live(1, THEIRS, running(THEIRS)), ""),
    ],
    ids=["gone, seen on it", "another, seen on the former", "gone", "another", "another, that is synced by others"],
)
def test_begun_sync_when_nothing_of_it_is_in_the_picture_then_its_end_is_presumed_and_it_is_never_started(
    asked: SyncRequest, found: LiveObject | None, begun: str
) -> None:
    decided = move(asked, found, begun=begun)
    assert decided == ReportProgress(SyncMoved("run-1", "Error", DELETED, "", "", NOW), presumed=True)


@pytest.mark.parametrize("sequence", [None, 2])
def test_begun_sync_when_the_application_shows_it_then_that_is_told_whatever_the_annotation_says(
    sequence: int | None,
) -> None:
    for asked in (request(), request(begun=True)):
        told = ReportProgress(SyncMoved("run-1", "Running", "", "", EARLIER, ""))
        assert move(asked, live(sequence, OURS, running())) == told
        assert move(asked, live(sequence, OURS)) == NoStep()


@pytest.mark.parametrize("found", [None, live(), live(2)], ids=["gone", "another", "ended"])
def test_begun_sync_when_it_shall_end_then_it_is_ended_as_one_that_was_not(found: LiveObject | None) -> None:
    assert move(request(terminated=True, begun=True), found) == move(request(terminated=True), found)


def test_row_when_its_run_was_seen_to_begin_then_the_request_says_so() -> None:
    operation = {"run": "r", "sequence": 1, "state": "Running"}
    assert sync_request({"operation": operation | {"begun": True}}).begun
    assert not sync_request({"operation": operation}).begun


def test_finished_sync_when_its_application_is_going_then_its_true_end_is_told() -> None:
    decided = move(request(), live(2, state=running(phase="Succeeded", finishedAt=NOW), going=True))
    assert decided == ReportProgress(SyncMoved("run-1", "Succeeded", "", "", EARLIER, NOW))


def test_running_sync_when_it_shall_end_then_its_phase_is_set() -> None:
    decided = move(request(terminated=True), live(2, OURS, running()))
    terminating = {"operationState": {"phase": "Terminating"}}
    assert decided == PatchApplication({"metadata": {"resourceVersion": "7"}, "status": terminating})


def test_running_sync_when_its_request_is_gone_and_it_shall_end_then_the_request_is_put_back() -> None:
    decided = move(request(terminated=True), live(2, state=running()))
    assert isinstance(decided, PatchApplication)
    assert decided.patch["operation"]["info"] == [{"name": "gitops-sync-run", "value": "run-1"}]


def test_terminating_sync_when_looked_at_again_then_it_is_told_and_nothing_is_written() -> None:
    decided = move(request(terminated=True), live(2, OURS, running(phase="Terminating")))
    assert decided == ReportProgress(SyncMoved("run-1", "Terminating", "", "", EARLIER, ""))


def test_requested_sync_when_it_shall_end_before_it_began_then_the_request_is_withdrawn() -> None:
    decided = move(request(terminated=True), live(2, OURS))
    assert decided == PatchApplication({"metadata": {"resourceVersion": "7"}, "operation": None})


@pytest.mark.parametrize("found", [live(), live(1, THEIRS, running(THEIRS))], ids=["idle", "somebody else's runs"])
def test_sync_when_it_shall_end_and_was_never_started_then_it_is_made_unstartable_first(found: LiveObject) -> None:
    decided = move(request(terminated=True), found)
    annotation = {"managed-gitops.redhat.com/sync-sequence": "2"}
    assert decided == PatchApplication({"metadata": {"resourceVersion": "7", "annotations": annotation}})


@pytest.mark.parametrize("found", [live(2), live(2, THEIRS, running(THEIRS)), None, live(going=True)])
def test_sync_when_there_is_nothing_to_end_then_it_is_terminated_at_once(found: LiveObject | None) -> None:
    assert move(request(terminated=True), found) == ReportProgress(SyncMoved("run-1", "Terminated", "", "", "", NOW))


@pytest.mark.parametrize(
    "operation",
    [{}, {"run": "r", "sequence": "1", "state": "Running"}, {"run": "r", "sequence": 1, "state": "Paused"}, []],
)
def test_row_when_its_operation_is_not_understood_then_it_is_refused(operation: object) -> None:
    with pytest.raises(Permanent):
        sync_request({"operation": operation})


@pytest.mark.parametrize("info", [None, "text", [1], [{"name": "gitops-sync-run", "value": 3}], {"name": "x"}])
def test_operation_when_its_info_is_of_another_shape_then_it_is_somebody_elses(info: object) -> None:
    found = live(operation={"info": info}, state={"operation": {"info": info}, "phase": 1})
    assert (found.operation.requested, found.operation.requested_run, found.operation.run) == (True, "", "")
