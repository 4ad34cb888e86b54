"""Which pods count as there while tests on a node roll out another release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.kubectl import PART
from tests.node.load import SPELL_SECONDS, Presence


def pod(*, ready: bool, restarts: int = 0, going: bool = False, ended: bool = False) -> dict[str, Any]:
    """Of a planner."""
    state = {"terminated": {"exitCode": 1}} if ended else {"running": {}}
    return {
        "metadata": {"name": "planner-1", "uid": "1", "labels": {PART: "planner"}}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}),
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"restartCount": restarts, "state": state}],
        },
    }


def test_pod_when_not_ready_for_a_moment_then_it_is_there_and_for_longer_it_is_not() -> None:
    presence = Presence()
    assert presence.by_service([pod(ready=True)], 0) == {"watcher": 0, "planner": 1, "agent": 0}
    assert presence.by_service([pod(ready=False)], SPELL_SECONDS - 1)["planner"] == 1
    assert presence.by_service([pod(ready=False)], SPELL_SECONDS)["planner"] == 0
    assert presence.by_service([pod(ready=True)], SPELL_SECONDS)["planner"] == 1


@pytest.mark.parametrize(
    "now", [pod(ready=False, restarts=1), pod(ready=True, going=True), pod(ready=False, ended=True)]
)
def test_pod_when_started_again_or_going_or_ended_then_it_is_not_there_at_once(now: dict[str, Any]) -> None:
    presence = Presence()
    assert presence.by_service([pod(ready=True)], 0)["planner"] == 1
    assert presence.by_service([now], 1)["planner"] == 0


def test_pod_when_it_was_never_ready_then_it_is_not_there() -> None:
    assert Presence().by_service([pod(ready=False)], 0)["planner"] == 0
