"""What a SnapshotEnvironmentBinding's status says of its deployments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.messages import ChildKind
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.reconciled import Problem
from services.kinds.snapshot_environment_binding.rules import Decision
from services.kinds.snapshot_environment_binding.status import DeploymentState, binding_status
from tests.unit.kinds.given import at

SYNCED = DeploymentState("Synced", "Healthy", "c1")
BROKEN = Problem("GitOpsRepoNotReady", "not ready")


def wanting(*components: str, problem: Problem | None = None) -> Decision:
    return Decision({name: ChildObject(ChildKind.DEPLOYMENT, f"web-{name}", {}) for name in components}, problem)


def shown(
    decision: Decision,
    states: dict[str, DeploymentState] | None = None,
    *,
    components: tuple[str, ...] = (),
    previous: str = "{}",
    second: int = 0,
) -> str:
    return binding_status(previous, decision, components, states or {}, {}, at(second))


def conditions(status: str, member: str) -> dict[str, tuple[str, str, str]]:
    listed = json.loads(status)[member]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


def deployments(status: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(status)["gitopsDeployments"]
    return found


def test_deployments_when_shown_then_they_are_sorted_by_component_with_what_each_says_of_itself() -> None:
    status = shown(wanting("cart", "basket"), {"web-cart": SYNCED, "web-other": SYNCED})
    assert deployments(status) == [
        {"componentName": "basket", "gitopsDeployment": "web-basket"},
        {
            "componentName": "cart",
            "gitopsDeployment": "web-cart",
            "syncStatus": "Synced",
            "health": "Healthy",
            "commitID": "c1",
        },
    ]


DEPLOYED = {
    "all": (("cart", "basket"), ("cart", "basket"), ("True", "CommitsSynced", "2 of 2 components deployed")),
    "one of two": (("cart", "basket"), ("cart",), ("False", "CommitsUnsynced", "1 of 2 components deployed")),
    "none": (("cart",), (), ("False", "CommitsUnsynced", "0 of 1 components deployed")),
    "no components": ((), (), ("True", "CommitsSynced", "0 of 0 components deployed")),
}


@pytest.mark.parametrize(("wanted", "synced", "state"), DEPLOYED.values(), ids=DEPLOYED)
def test_condition_when_so_many_are_synced_then_it_says_how_many_of_how_many(
    wanted: tuple[str, ...], synced: tuple[str, ...], state: tuple[str, str, str]
) -> None:
    status = shown(wanting(*wanted), {f"web-{name}": SYNCED for name in synced}, components=wanted)
    assert conditions(status, "componentDeploymentConditions") == {"AllComponentsDeployed": state}


def test_condition_when_a_component_has_no_deployment_yet_then_it_counts_as_not_deployed() -> None:
    status = shown(wanting("cart"), {"web-cart": SYNCED}, components=("cart", "basket"))
    found = conditions(status, "componentDeploymentConditions")["AllComponentsDeployed"]
    assert found == ("False", "CommitsUnsynced", "1 of 2 components deployed")


def test_binding_when_all_is_right_then_it_is_reconciled_and_no_error_was_ever_shown() -> None:
    assert conditions(shown(wanting("cart")), "bindingConditions") == {"Reconciled": ("True", "Reconciled", "")}


def test_binding_when_a_problem_comes_and_goes_then_both_conditions_follow() -> None:
    broken = shown(Decision(None, BROKEN))
    assert conditions(broken, "bindingConditions") == {
        "ErrorOccurred": ("True", "ErrorOccurred", "not ready"),
        "Reconciled": ("False", "GitOpsRepoNotReady", "not ready"),
    }
    assert conditions(shown(wanting(), previous=broken, second=1), "bindingConditions") == {
        "ErrorOccurred": ("False", "ErrorOccurredResolved", ""),
        "Reconciled": ("True", "Reconciled", ""),
    }


def test_deployments_when_nothing_is_decided_then_those_that_are_there_stay_with_their_newest_state() -> None:
    before = shown(wanting("cart"), {"web-cart": SYNCED})
    stale = DeploymentState("OutOfSync", "Degraded", "c2")
    after = shown(Decision(None, BROKEN), {"web-cart": stale}, previous=before, components=("cart",), second=1)
    assert [(each["componentName"], each["syncStatus"], each["commitID"]) for each in deployments(after)] == [
        ("cart", "OutOfSync", "c2")
    ]
    assert (
        conditions(after, "componentDeploymentConditions")["AllComponentsDeployed"][2] == "0 of 1 components deployed"
    )


def test_status_when_nothing_changes_then_it_is_the_same_text_later_too() -> None:
    before = shown(wanting("cart"), {"web-cart": SYNCED})
    assert shown(wanting("cart"), {"web-cart": SYNCED}, previous=before, second=60) == before


def test_status_when_it_is_ours_then_it_has_none_of_the_members_of_the_build_service() -> None:
    assert json.loads(shown(wanting("cart"))).keys() == {
        "gitopsDeployments",
        "bindingConditions",
        "componentDeploymentConditions",
    }
