"""What a GitOpsDeployment shows of its environment, of what blocks it and of being held back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

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
