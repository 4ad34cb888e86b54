"""What a GitOpsDeployment's status shows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.gitops_deployment.rules import unobserved
from services.kinds.gitops_deployment.status import DELETION_NOTICE, MAX_STATUS
from tests.unit.planner.argocd.shown import compiled
from tests.unit.planner.given import SYNCED, at

DEPLOYMENT = Deployment(
    id=UUID(int=1),
    tenant_id=UUID(int=2),
    source="local",
    name="web",
    uid="uid-1",
    resource_version="1",
    generation=1,
    epoch=1,
    present=True,
    deleting=False,
    finalizer=False,
    spec="{}",
    pending_spec=None,
    environment=None,
    repository="r",
    digest="d",
    error="",
    pending_reason="",
    over_quota=False,
    held_back_ms=0,
    sync_sequence=0,
    seen_at=at(0),
    trace_id="",
)
FAILING = replace(DEPLOYMENT, error="it is wrong")


def after(deployment: Deployment, previous: str, when: datetime, **engine: Any) -> str:
    observed = replace(unobserved(deployment), status=json.dumps(engine))
    return compiled(deployment, observed, previous, when)


def parsed(status: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(status)
    return content


def conditions(status: str) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in parsed(status).get("conditions", [])}


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"sync": SYNCED}, {"sync": SYNCED}, id="sync"),
        pytest.param(
            {"health": {"status": "Degraded", "message": "crash", "lastTransitionTime": "x"}},
            {"health": {"status": "Degraded", "message": "crash"}},
            id="health",
        ),
        pytest.param(
            {
                "resources": [
                    {"kind": "Pod", "name": "a", "version": "v1", "hook": True, "health": {"status": "Healthy"}}
                ]
            },
            {"resources": [{"kind": "Pod", "name": "a", "version": "v1", "health": {"status": "Healthy"}}]},
            id="resources",
        ),
        pytest.param(
            {"operationState": {"phase": "Running", "retryCount": 3, "any": [1, {"thing": None}]}},
            {"operationState": {"phase": "Running", "retryCount": 3, "any": [1, {"thing": None}]}},
            id="operation-state-as-it-is",
        ),
        pytest.param(
            {
                "sync": {
                    "status": "Synced",
                    "comparedTo": {
                        "source": {"path": "p", "repoURL": "r", "targetRevision": "b"},
                        "destination": {"name": "in-cluster", "namespace": "n"},
                    },
                }
            },
            {
                "sync": {"status": "Synced"},
                "reconciledState": {
                    "source": {"path": "p", "repoURL": "r", "branch": "b"},
                    "destination": {"name": "", "namespace": "n"},
                },
            },
            id="reconciled-state",
        ),
        pytest.param({"sync": [], "health": "x", "resources": {"a": 1}, "conditions": "no"}, {}, id="nonsense"),
    ],
)
def test_status_when_the_engine_reports_then_it_shows_the_documented_parts(
    engine: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert parsed(after(DEPLOYMENT, "{}", at(1), **engine)) == expected


def test_error_when_it_never_occurred_then_there_is_no_condition() -> None:
    assert "conditions" not in parsed(after(DEPLOYMENT, "{}", at(1), sync=SYNCED))


def test_error_when_it_occurs_and_goes_then_both_are_shown_with_their_times() -> None:
    wrong = after(FAILING, "{}", at(1))
    right = after(DEPLOYMENT, wrong, at(9))
    assert conditions(wrong)["ErrorOccurred"] == {
        "type": "ErrorOccurred",
        "status": "True",
        "reason": "ErrorOccurred",
        "message": "it is wrong",
        "lastTransitionTime": "2026-05-04T12:00:01Z",
        "lastProbeTime": "2026-05-04T12:00:01Z",
    }
    assert conditions(right)["ErrorOccurred"] == {
        "type": "ErrorOccurred",
        "status": "False",
        "reason": "ErrorOccurredResolved",
        "message": "",
        "lastTransitionTime": "2026-05-04T12:00:09Z",
        "lastProbeTime": "2026-05-04T12:00:09Z",
    }


def test_condition_when_only_another_part_changes_then_its_transition_stays_and_its_probe_moves() -> None:
    before = after(FAILING, "{}", at(1))
    now = conditions(after(FAILING, before, at(9), sync=SYNCED))["ErrorOccurred"]
    assert now["lastTransitionTime"] == "2026-05-04T12:00:01Z"
    assert now["lastProbeTime"] == "2026-05-04T12:00:09Z"


def test_condition_when_only_its_message_changes_then_its_transition_moves() -> None:
    before = after(FAILING, "{}", at(1))
    now = conditions(after(replace(FAILING, error="still"), before, at(9)))["ErrorOccurred"]
    assert now["lastTransitionTime"] == "2026-05-04T12:00:09Z"


def test_status_when_nothing_changes_then_it_is_the_same_text_later_too() -> None:
    before = after(FAILING, "{}", at(1), sync=SYNCED)
    assert after(FAILING, before, at(500), sync=SYNCED) == before


def test_engine_condition_when_it_comes_and_goes_then_it_is_resolved_under_its_own_name() -> None:
    before = after(DEPLOYMENT, "{}", at(1), conditions=[{"type": "SyncError", "message": "no"}])
    now = after(DEPLOYMENT, before, at(2))
    assert (conditions(before)["SyncError"]["reason"], conditions(before)["SyncError"]["message"]) == (
        "SyncError",
        "no",
    )
    assert (conditions(now)["SyncError"]["status"], conditions(now)["SyncError"]["reason"]) == (
        "False",
        "SyncErrorResolved",
    )


def test_engine_condition_when_its_type_is_repeated_then_it_is_shown_once_with_every_message() -> None:
    engine = [{"type": "W", "message": "a"}, {"type": "W", "message": "b"}, {"type": "W", "message": "a"}]
    assert conditions(after(DEPLOYMENT, "{}", at(1), conditions=engine))["W"]["message"] == "a; b"


def test_conditions_when_more_come_then_those_known_keep_their_places() -> None:
    before = after(DEPLOYMENT, "{}", at(1), conditions=[{"type": "B"}, {"type": "A"}])
    now = after(FAILING, before, at(2), conditions=[{"type": "A"}, {"type": "C"}])
    assert list(conditions(now)) == ["B", "A", "C", "ErrorOccurred"]


def test_deletion_when_it_takes_long_then_the_cr_says_so_and_not_before() -> None:
    deleting = replace(DEPLOYMENT, deleting=True, finalizer=True, seen_at=at(10))
    assert conditions(after(deleting, "{}", at(11))) == {}
    assert conditions(after(deleting, "{}", at(10) + DELETION_NOTICE))["Deleting"]["status"] == "True"


def test_deletion_when_the_cr_said_that_it_takes_long_then_it_says_so_until_the_end() -> None:
    deleting = replace(DEPLOYMENT, deleting=True, finalizer=True, seen_at=at(10))
    told = after(deleting, "{}", at(60))
    assert after(deleting, told, at(11)) == told
    ended = after(replace(deleting, spec=None, digest=None), told, at(70))
    assert conditions(ended)["Deleting"]["reason"] == "DeletingResolved"


def test_status_when_it_is_too_long_then_the_resources_are_left_out_and_a_condition_says_so_until_they_fit() -> None:
    resources = [{"kind": "Pod", "name": f"pod-{number}" * 10} for number in range(6000)]
    status = after(DEPLOYMENT, "{}", at(1), sync=SYNCED, resources=resources)
    assert {name for name in parsed(status) if name != "conditions"} == {"sync"}
    cut = conditions(status)["StatusTruncated"]
    assert (cut["status"], cut["message"]) == ("True", "the status is longer than 512 KiB: left out is resources")
    assert len(status) < MAX_STATUS
    whole = after(DEPLOYMENT, status, at(2), sync=SYNCED, resources=resources[:1])
    assert conditions(whole)["StatusTruncated"]["reason"] == "StatusTruncatedResolved"
