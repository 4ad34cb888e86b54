"""What a GitOpsDeployment shows of what blocks it and of being held back."""

from __future__ import annotations

import pytest

from services.kinds.gitops_deployment.status import EngineReport, compile_deployment_status
from tests.unit.kinds.given import at, conditions, deployment


@pytest.mark.parametrize(
    ("error", "reason", "expected"), [("bad path", "", "bad path"), ("", "no room", "no room"), ("a", "b", "a")]
)
def test_status_when_its_spec_cannot_be_had_then_an_error_occurred(error: str, reason: str, expected: str) -> None:
    status = compile_deployment_status(
        deployment(error=error, pending_reason=reason), None, EngineReport(), "{}", at(0)
    )
    assert conditions(status) == {"ErrorOccurred": ("True", "ErrorOccurred", expected)}


def test_status_when_its_change_was_held_back_then_throttled_shows_until_one_was_not() -> None:
    held = compile_deployment_status(deployment(held_back_ms=1000), None, EngineReport(), "{}", at(0))
    assert conditions(held) == {
        "Throttled": (
            "True",
            "Throttled",
            "changes of this namespace arrive faster than allowed; this one was held back for 1 s",
        )
    }
    later = compile_deployment_status(deployment(held_back_ms=0), None, EngineReport(), held, at(1))
    assert conditions(later) == {"Throttled": ("False", "ThrottledResolved", "")}
