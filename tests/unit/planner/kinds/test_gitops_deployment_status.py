"""What a GitOpsDeployment shows of its environment, of what blocks it and of being held back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.api.conditions import Condition
from services.planner.kinds.bounds import MAX_CONDITION_MESSAGE
from services.planner.kinds.gitops_deployment import unobserved
from services.planner.kinds.gitops_deployment_status import compiled
from tests.unit.planner.kinds.given import at, conditions, deployment

ENVIRONMENTS = {"managed-env-1": "prod"}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [("managed-env-1", "prod"), ("in-cluster", ""), ("managed-env-2", "managed-env-2"), ("", "")],
)
def test_status_when_the_engine_has_compared_then_the_destination_is_the_environment_s_name(
    cluster: str, expected: str
) -> None:
    compared = {"source": {"repoURL": "r", "path": "p"}, "destination": {"name": cluster, "namespace": "apps"}}
    engine = json.dumps({"sync": {"status": "Synced", "comparedTo": compared}})
    observed = replace(unobserved(deployment()), status=engine)
    status = json.loads(compiled(deployment(), observed, "{}", at(0), ENVIRONMENTS))
    assert status["reconciledState"]["destination"] == {"name": expected, "namespace": "apps"}


@pytest.mark.parametrize(
    ("error", "blocked", "expected"), [("bad path", "", "bad path"), ("", "no room", "no room"), ("a", "b", "a")]
)
def test_status_when_its_spec_cannot_be_had_then_an_error_occurred(error: str, blocked: str, expected: str) -> None:
    status = compiled(deployment(error=error, blocked=blocked), None, "{}", at(0))
    assert conditions(status) == {"ErrorOccurred": ("True", "ErrorOccurred", expected)}


def test_status_when_its_change_was_held_back_then_throttled_shows_until_one_was_not() -> None:
    held = compiled(deployment(held_back_ms=1000), None, "{}", at(0))
    assert conditions(held) == {
        "Throttled": (
            "True",
            "Throttled",
            "changes of this namespace arrive faster than allowed; this one was held back for 1 s",
        )
    }
    later = compiled(deployment(held_back_ms=0), None, held, at(1))
    assert conditions(later) == {"Throttled": ("False", "ThrottledResolved", "")}


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
    status = shown(conditions=[{"type": "ComparisonError", "message": quoting}], operationState={"message": quoting})
    assert conditions(json.dumps(status))["ComparisonError"][2] == before
    assert status["operationState"]["message"] == before


def test_status_when_the_engine_says_more_than_a_condition_holds_then_it_is_cut() -> None:
    endless = [{"type": "SyncError", "message": "x" * 20_000 + str(number)} for number in range(3)]
    status = shown(conditions=endless)
    assert len(conditions(json.dumps(status))["SyncError"][2]) == MAX_CONDITION_MESSAGE
    assert Condition.model_json_schema()["properties"]["message"]["maxLength"] == MAX_CONDITION_MESSAGE
