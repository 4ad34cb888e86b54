"""What a GitOpsDeployment shows of its Application's status."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from services.kinds.gitops_deployment.rules import unobserved
from services.kinds.shared.api_model import Condition
from services.kinds.shared.text import MAX_CONDITION_MESSAGE
from services.planner.engines.argocd.implementation import ArgoCD
from tests.unit.kinds.given import at, conditions, deployment
from tests.unit.planner.argocd.shown import compiled

PROD, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (f"managed-env-{PROD}", "prod"),
        ("in-cluster", ""),
        (f"managed-env-{OTHER}", f"managed-env-{OTHER}"),
        ("managed-env-1", "managed-env-1"),
        ("", ""),
    ],
)
def test_status_when_the_engine_has_compared_then_the_destination_is_the_environment_s_name(
    cluster: str, expected: str
) -> None:
    compared = {"source": {"repoURL": "r", "path": "p"}, "destination": {"name": cluster, "namespace": "apps"}}
    engine = json.dumps({"sync": {"status": "Synced", "comparedTo": compared}})
    observed = replace(unobserved(deployment()), status=engine)
    status = json.loads(compiled(deployment(), observed, "{}", at(0), {PROD: "prod"}))
    assert status["reconciledState"]["destination"] == {"name": expected, "namespace": "apps"}


def shown(**engine: Any) -> dict[str, Any]:
    observed = replace(unobserved(deployment()), status=json.dumps(engine))
    status: dict[str, Any] = json.loads(compiled(deployment(), observed, "{}", at(0)))
    return status


HOSTILE = "one\x1b[2J\r\n\ttwo\x07\x9b\x7f"
HARMLESS = "one[2J\n\ttwo"


def test_status_when_the_engine_says_control_characters_then_only_lines_and_tabs_are_shown() -> None:
    status = shown(
        conditions=[{"type": "SyncError", "message": HOSTILE}],
        health={"status": "Degraded", "message": HOSTILE},
        resources=[{"kind": "Pod", "name": "a", "health": {"message": HOSTILE}}],
        operationState={"message": HOSTILE, "retryCount": 2, "syncResult": {"resources": [{"message": HOSTILE}]}},
    )
    assert conditions(json.dumps(status))["SyncError"][2] == HARMLESS
    assert status["health"]["message"] == status["resources"][0]["health"]["message"] == HARMLESS
    assert status["operationState"] == {
        "message": HARMLESS,
        "retryCount": 2,
        "syncResult": {"resources": [{"message": HARMLESS}]},
    }


@pytest.mark.parametrize(
    "words",
    [
        "authentication required",
        "authorization failed",
        "repository not found",
        'unexpected client error: unexpected requesting "https://git.example.com/a" status code: 500',
    ],
)
def test_status_when_the_engine_quotes_a_git_server_then_its_answer_is_not_shown(words: str) -> None:
    before = f"Failed to load target state: rpc error: code = Unknown desc = failed to list refs: {words}"
    quoting = f"{before}: <html>\nwhat an internal server says\n: {words}: more"
    status = shown(conditions=[{"type": "UnknownError", "message": quoting}], operationState={"message": quoting})
    assert conditions(json.dumps(status))["UnknownError"][2] == before
    assert status["operationState"]["message"] == before


def test_status_when_the_engine_says_more_than_a_condition_holds_then_it_is_cut() -> None:
    endless = [{"type": "SyncError", "message": "x" * 20_000 + str(number)} for number in range(3)]
    status = shown(conditions=endless)
    assert len(conditions(json.dumps(status))["SyncError"][2]) == MAX_CONDITION_MESSAGE
    assert Condition.model_json_schema()["properties"]["message"]["maxLength"] == MAX_CONDITION_MESSAGE


SYNCING: dict[str, tuple[dict[str, Any], bool]] = {
    "an attempt is under way": ({"phase": "Running"}, True),
    "it waits for its next attempt": ({"phase": "Running", "finishedAt": "2026-05-04T12:00:00Z"}, False),
    "it is being terminated": ({"phase": "Terminating"}, False),
    "it has ended": ({"phase": "Succeeded", "finishedAt": "2026-05-04T12:00:00Z"}, False),
    "it is nonsense": ({"phase": ["Running"]}, False),
    "there was none": ({}, False),
}


@pytest.mark.parametrize(("operation", "expected"), SYNCING.values(), ids=SYNCING)
def test_operation_when_argocd_tells_of_it_then_it_syncs_while_an_attempt_is_under_way(
    operation: dict[str, Any], *, expected: bool
) -> None:
    assert ArgoCD().is_syncing(json.dumps({"operationState": operation})) == expected
    assert not ArgoCD().is_syncing("")


SUCCEEDED = {"phase": "Succeeded", "syncResult": {"revision": "abc"}}
COMPARED = {"sync": {"status": "Synced"}}
LAST: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "it tells of none": (COMPARED, SUCCEEDED, SUCCEEDED),
    "it tells of another": (COMPARED | {"operationState": {"phase": "Running"}}, SUCCEEDED, {"phase": "Running"}),
    "the last one failed": (COMPARED, {"phase": "Failed"}, {"phase": "Failed"}),
    "the last one had not ended": (COMPARED, {"phase": "Running", "finishedAt": "2026-05-04T12:00:00Z"}, None),
    "the last one is nonsense": (COMPARED, {"phase": ["Failed"]}, None),
    "there was none": (COMPARED, {}, None),
    "it tells nothing at all": ({}, SUCCEEDED, None),
}


@pytest.mark.parametrize(("told", "last", "expected"), LAST.values(), ids=LAST)
def test_operation_when_argocd_tells_a_status_then_the_last_one_that_has_ended_stays_unless_there_is_another(
    told: dict[str, Any], last: dict[str, Any], expected: Any
) -> None:
    status, before = (json.dumps(each) if each else "" for each in (told, {"operationState": last}))
    found = ArgoCD().with_last_operation(status, before)
    assert json.loads(found or "{}") == told | ({"operationState": expected} if expected else {})
    assert ArgoCD().with_last_operation(status, "") == status
