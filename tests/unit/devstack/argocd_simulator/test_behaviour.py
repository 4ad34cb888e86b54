"""What the simulator writes next to an Application, as a table of states."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devstack.argocd_simulator.behaviour import respond

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FINALIZER = "resources-finalizer.argocd.argoproj.io/background"


def application(path: str = "manifests", automated: bool = True, **meta: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"syncPolicy": {"automated": {"prune": True}}} if automated else {}
    return {
        "metadata": {"name": "app", "namespace": "argocd", "resourceVersion": "7"} | meta,
        "spec": {
            "source": {"repoURL": "https://example.com/repo", "path": path},
            "destination": {"name": "in-cluster", "namespace": "team-a"},
        }
        | policy,
    }


def merged(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        result.pop(name, None)
        if value is not None:
            result[name] = merged((before or {}).get(name) if isinstance(before, dict) else None, value)
    return result


def settled(state: dict[str, Any], writes_per_sync: int = 2) -> tuple[dict[str, Any], int]:
    """The state in which nothing more is written, and after how many writes."""
    for count in range(10):
        response = respond(state, NOW, writes_per_sync)
        if response is None:
            return state, count
        state = merged(state, response.patch)
    raise AssertionError("never settles")


@pytest.mark.parametrize("writes", [1, 2])
def test_automated_application_when_new_then_it_is_synced_in_so_many_writes(writes: int) -> None:
    state, count = settled(application(), writes)
    assert count == writes
    assert state["status"]["sync"]["status"] == "Synced"
    assert state["status"]["sync"]["comparedTo"]["source"] == state["spec"]["source"]
    assert state["status"]["operationState"]["phase"] == "Succeeded"
    assert state["status"]["health"]["status"] == "Healthy"


def test_automated_application_when_its_source_changes_then_it_is_synced_to_the_new_revision() -> None:
    state, _ = settled(application())
    before = state["status"]["sync"]["revision"]
    state["spec"]["source"]["targetRevision"] = "v2"
    state, count = settled(state)
    assert count == 2
    assert state["status"]["sync"]["revision"] != before


def test_manual_application_when_new_then_it_is_out_of_sync_until_an_operation_asks() -> None:
    state, count = settled(application(automated=False))
    assert count == 1
    assert (state["status"]["sync"]["status"], state["status"]["health"]["status"]) == ("OutOfSync", "Missing")
    state["operation"] = {"sync": {"revision": "abc"}}
    state, _ = settled(state)
    assert "operation" not in state
    assert state["status"]["sync"]["status"] == "Synced"


def test_operation_when_it_is_asked_for_then_it_stays_until_its_end() -> None:
    state, _ = settled(application(automated=False))
    asked = {"sync": {"revision": "a" * 40}, "info": [{"name": "n", "value": "v"}]}
    state["operation"] = asked
    response = respond(state, NOW)
    assert response is not None
    running = merged(state, response.patch)
    assert running["operation"] == asked
    assert running["status"]["operationState"]["phase"] == "Running"
    assert running["status"]["operationState"]["operation"]["info"] == asked["info"]
    ended, _ = settled(running)
    assert "operation" not in ended
    assert ended["status"]["operationState"]["finishedAt"] == "2026-01-01T00:00:00Z"
    assert ended["status"]["operationState"]["syncResult"]["revision"] == "a" * 40


@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize("automated", [True, False])
def test_slow_sync_when_begun_then_it_runs_until_it_is_terminated(automated: bool, writes: int) -> None:
    slow = application("simulate/slow-sync", automated) | ({} if automated else {"operation": {"sync": {}}})
    state, count = settled(slow, writes)
    assert (count, state["status"]["operationState"]["phase"]) == (1, "Running")
    assert "operation" in state
    state["status"]["operationState"]["phase"] = "Terminating"
    state, _ = settled(state, writes)
    ended = state["status"]["operationState"]
    assert (ended["phase"], ended["message"]) == ("Failed", "Operation terminated")
    assert "operation" not in state


def test_operation_when_its_request_is_taken_away_then_no_phase_is_looked_at() -> None:
    state, _ = settled(application("simulate/slow-sync", automated=False) | {"operation": {"sync": {}}})
    del state["operation"]
    state["status"]["operationState"]["phase"] = "Terminating"
    state, _ = settled(state)
    assert state["status"]["operationState"]["phase"] == "Terminating"


@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize("automated", [True, False])
def test_failing_sync_when_begun_then_it_fails_once_and_the_application_is_out_of_sync(
    automated: bool, writes: int
) -> None:
    failing = application("simulate/failing-sync", automated) | ({} if automated else {"operation": {"sync": {}}})
    state, _ = settled(failing, writes)
    assert state["status"]["operationState"]["phase"] == "Failed"
    assert state["status"]["sync"]["status"] == "OutOfSync"
    assert "operation" not in state
    state["spec"]["source"]["path"] = "manifests"
    state, _ = settled(state, writes)
    assert state["status"]["sync"]["status"] == ("Synced" if automated else "OutOfSync")


@pytest.mark.parametrize(
    ("path", "health", "condition"),
    [("simulate/degraded", "Degraded", None), ("simulate/comparison-error", "Healthy", "ComparisonError")],
)
def test_simulated_trouble_when_asked_for_then_it_is_shown(path: str, health: str, condition: str | None) -> None:
    state, _ = settled(application(path))
    assert state["status"]["health"]["status"] == health
    assert [each["type"] for each in state["status"].get("conditions", [])] == ([condition] if condition else [])


def test_comparison_error_when_the_path_is_corrected_then_it_goes() -> None:
    state, _ = settled(application("simulate/comparison-error"))
    state["spec"]["source"]["path"] = "manifests"
    state, _ = settled(state)
    assert "conditions" not in state["status"]
    assert state["status"]["sync"]["status"] == "Synced"


def test_silent_application_when_new_then_nothing_is_written() -> None:
    assert respond(application("simulate/silent"), NOW) is None


@pytest.mark.parametrize("path", ["manifests", "simulate/comparison-error"])
@pytest.mark.parametrize("automated", [True, False])
def test_comparison_when_it_is_asked_for_then_its_time_alone_is_new_and_nobody_asks_any_more(
    path: str, automated: bool
) -> None:
    before, _ = settled(application(path, automated))
    asked = merged(before, {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard", "theirs": "stays"}}})
    response = respond(asked, NOW + timedelta(minutes=1))
    assert response is not None
    after = merged(asked, response.patch)
    assert after["metadata"]["annotations"] == {"theirs": "stays"}
    assert after["status"] == before["status"] | {"reconciledAt": "2026-01-01T00:01:00Z"}
    assert respond(after, NOW) is None


def test_silent_application_when_a_comparison_is_asked_for_then_nothing_is_written() -> None:
    asked = application("simulate/silent", annotations={"argocd.argoproj.io/refresh": "normal"})
    assert respond(asked, NOW) is None


def test_deleted_application_when_it_has_argo_cds_finalizer_then_only_that_goes() -> None:
    going = application(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion", FINALIZER])
    response = respond(going, NOW)
    assert response is not None
    assert response.patch == {"metadata": {"resourceVersion": "7", "finalizers": ["foregroundDeletion"]}}


def test_stuck_deletion_when_asked_for_then_the_finalizer_stays() -> None:
    going = application("simulate/stuck-deletion", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FINALIZER])
    assert respond(going, NOW) is None
