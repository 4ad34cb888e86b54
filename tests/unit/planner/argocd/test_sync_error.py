"""SyncError of a sync that Argo CD retries, and of one that it has given up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.gitops_deployment.rules import unobserved
from tests.unit.kinds.given import at, conditions, deployment
from tests.unit.planner.argocd.shown import compiled

REFUSED = 'ConfigMap "web" is invalid: data[key with blanks]: Invalid value'
RESULT = {"kind": "ConfigMap", "name": "web", "status": "SyncFailed", "message": REFUSED}
INVALID = "one or more synchronization tasks are not valid"
WAITING = {
    "phase": "Running",
    "finishedAt": "2026-05-04T12:00:00Z",
    "retryCount": 1,
    "message": f"{INVALID}. Retrying attempt #1 at 12:00PM.",
    "syncResult": {"resources": [RESULT, {"kind": "Secret", "status": "Synced", "message": "unchanged"}]},
}
TRYING_AGAIN = WAITING | {"finishedAt": None, "message": "Retrying operation with latest revisions. Attempt #1"}
FAILED = {"phase": "Failed", "finishedAt": "2026-05-04T12:00:00Z", "message": "Operation terminated (retried 3 times)."}
SUCCEEDED = {"phase": "Succeeded", "retryCount": 1, "message": "successfully synced (all tasks run)"}
HOLDING = ("True", "SyncError", f"{INVALID}: {REFUSED}")
RESOLVED = ("False", "SyncErrorResolved", "")


def after(previous: str, operation: dict[str, Any], *engine_conditions: dict[str, str]) -> str:
    status = {"operationState": operation, "conditions": list(engine_conditions)}
    return compiled(deployment(), replace(unobserved(deployment()), status=json.dumps(status)), previous, at(0))


def sync_error(status: str) -> tuple[str, str, str] | None:
    return conditions(status).get("SyncError")


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        pytest.param(WAITING, f"{INVALID}: {REFUSED}", id="a resource is refused"),
        pytest.param(
            WAITING
            | {"message": f"one or more objects failed to apply, reason: {REFUSED}. Retrying attempt #2 at 3:05PM."},
            f"one or more objects failed to apply, reason: {REFUSED}",
            id="the message says why",
        ),
        pytest.param(
            WAITING | {"message": "ComparisonError: no such path. Retrying attempt #1 at 3:05PM."},
            "ComparisonError: no such path",
            id="the resources are of an attempt before",
        ),
        pytest.param(FAILED, "Operation terminated (retried 3 times).", id="failed"),
        pytest.param({"phase": "Error", "message": "no such commit"}, "no such commit", id="error"),
    ],
)
def test_sync_error_when_an_attempt_has_failed_then_it_holds_with_argocds_own_words(
    operation: dict[str, Any], message: str
) -> None:
    assert sync_error(after("{}", operation)) == ("True", "SyncError", message)


def test_sync_error_when_a_hook_has_failed_then_it_says_what_the_hook_said() -> None:
    hook = {"kind": "Job", "status": "Synced", "hookPhase": "Failed", "message": "Job has reached the backoff limit"}
    message = "one or more synchronization tasks completed unsuccessfully"
    status = after("{}", WAITING | {"message": message, "syncResult": {"resources": [hook]}})
    assert sync_error(status) == ("True", "SyncError", f"{message}: Job has reached the backoff limit")


@pytest.mark.parametrize(
    "operation",
    [{}, {"phase": "Running"}, {"phase": "Running", "retryCount": 1, "message": SUCCEEDED["message"]}, SUCCEEDED],
    ids=["nothing", "first attempt", "what is left of an operation before", "success"],
)
def test_sync_error_when_no_attempt_has_failed_then_there_is_none(operation: dict[str, Any]) -> None:
    assert sync_error(after("{}", operation)) is None


def test_sync_error_when_it_is_tried_again_then_it_holds_unchanged_until_that_succeeds() -> None:
    first = after("{}", WAITING)
    trying = after(first, TRYING_AGAIN)
    second = after(trying, WAITING | {"retryCount": 2, "message": f"{INVALID}. Retrying attempt #2 at 12:05PM."})
    assert [sync_error(status) for status in (first, trying, second)] == [HOLDING] * 3
    assert sync_error(after(second, SUCCEEDED)) == RESOLVED


def test_sync_error_when_argocd_has_one_of_its_own_then_that_is_shown() -> None:
    own = {"type": "SyncError", "message": "Failed last sync attempt to abc: Operation terminated"}
    assert sync_error(after("{}", FAILED, own)) == ("True", "SyncError", own["message"])
