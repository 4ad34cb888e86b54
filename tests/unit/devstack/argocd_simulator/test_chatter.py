"""What the simulator writes when it says all that real Argo CD says."""

from __future__ import annotations

from typing import Any

from devstack.argocd_simulator.chatter import WRITES_PER_SYNC, respond_in_full
from tests.unit.devstack.argocd_simulator.test_behaviour import FINALIZER, NOW, application, merged


def written(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Each state until nothing more is written."""
    states: list[dict[str, Any]] = []
    while (response := respond_in_full(states[-1] if states else state, NOW)) is not None:
        states.append(merged(states[-1] if states else state, response.patch))
        assert len(states) <= 2 * WRITES_PER_SYNC
    return states


def said(state: dict[str, Any]) -> tuple[str, str, str]:
    """Of its sync, its health and its operation."""
    status = state["status"]
    phase = (status.get("operationState") or {}).get("phase", "asked for" if state.get("operation") else "")
    return status["sync"]["status"], status["health"]["status"], phase


def test_automated_application_when_new_then_it_is_synced_twice_in_nine_writes() -> None:
    states = written(application())
    assert [said(state) for state in states] == [
        ("OutOfSync", "Missing", ""),
        ("OutOfSync", "Missing", "asked for"),
        ("OutOfSync", "Missing", "Running"),
        ("OutOfSync", "Missing", "Running"),
        ("OutOfSync", "Missing", "Succeeded"),
        ("OutOfSync", "Healthy", "asked for"),
        ("OutOfSync", "Healthy", "Running"),
        ("OutOfSync", "Healthy", "Succeeded"),
        ("Synced", "Healthy", "Succeeded"),
    ]
    assert len(states) == WRITES_PER_SYNC
    assert "operation" not in states[-1]


def test_automated_application_when_its_source_changes_then_all_is_said_again() -> None:
    state = written(application())[-1]
    before = state["status"]["sync"]["revision"]
    state["spec"]["source"]["targetRevision"] = "v2"
    states = written(state)
    assert len(states) == WRITES_PER_SYNC
    assert said(states[-1]) == ("Synced", "Healthy", "Succeeded")
    assert states[-1]["status"]["sync"]["revision"] != before


def test_manual_application_when_a_sync_is_asked_for_then_it_is_synced_once() -> None:
    state = written(application(automated=False))[-1]
    assert said(state) == ("OutOfSync", "Missing", "")
    state["operation"] = {"sync": {"revision": "a" * 40}}
    states = written(state)
    assert [said(each)[2] for each in states] == ["Running", "Running", "Succeeded", "Succeeded"]
    assert said(states[-1]) == ("Synced", "Healthy", "Succeeded")
    assert states[-1]["status"]["sync"]["revision"] == "a" * 40


def test_sync_when_it_fails_then_it_is_not_tried_again() -> None:
    assert said(written(application("simulate/failing-sync"))[-1]) == ("OutOfSync", "Missing", "Failed")


def test_deleted_application_when_it_has_argo_cds_finalizer_then_that_goes() -> None:
    state = written(application())[-1]
    state["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
    assert written(state)[-1]["metadata"]["finalizers"] == []
