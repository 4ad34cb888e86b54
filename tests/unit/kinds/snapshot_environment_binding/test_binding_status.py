"""What a SnapshotEnvironmentBinding's status says of its deployments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.kinds.shared.child_objects import ChildDeployment, DeploymentState
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.reconciled import Problem
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.status import OWN_MEMBERS, binding_status
from tests.unit.kinds.given import inputs, resource

SYNCED = DeploymentState("Synced", "Healthy", "c1")
UNKNOWN = DeploymentState()
BROKEN = Problem("GitOpsRepoNotReady", "not ready")


def shown(
    deployed: dict[str, DeploymentState],
    *,
    components: tuple[str, ...] | None = None,
    problem: Problem | None = None,
    previous: str = "{}",
    second: int = 0,
) -> str:
    """With these deployments, by component; the spec names the same components unless others are told."""
    wanted = [{"name": name} for name in (deployed if components is None else components)]
    spec = {"application": "shop", "environment": "staging", "snapshot": "one", "components": wanted}
    row = refuse_resource(resource(BINDING.kind, "web", spec), problem.refusal if problem else None)
    children = tuple(
        ChildDeployment(f"web-{name}", {"appstudio.openshift.io/component": name}, state)
        for name, state in deployed.items()
    )
    return binding_status(inputs(row, previous=previous, second=second, deployments=children))


def conditions(status: str, member: str) -> dict[str, tuple[str, str, str]]:
    listed = json.loads(status)[member]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


def deployments(status: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(status)["gitopsDeployments"]
    return found


def test_deployments_when_shown_then_they_are_sorted_by_component_with_what_each_says_of_itself() -> None:
    assert deployments(shown({"cart": SYNCED, "basket": UNKNOWN})) == [
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
    "all": ({"cart": SYNCED, "basket": SYNCED}, ("True", "CommitsSynced", "2 of 2 components deployed")),
    "one of two": ({"cart": SYNCED, "basket": UNKNOWN}, ("False", "CommitsUnsynced", "1 of 2 components deployed")),
    "none": ({"cart": UNKNOWN}, ("False", "CommitsUnsynced", "0 of 1 components deployed")),
    "no components": ({}, ("True", "CommitsSynced", "0 of 0 components deployed")),
}


@pytest.mark.parametrize(("deployed", "state"), DEPLOYED.values(), ids=DEPLOYED)
def test_condition_when_so_many_are_synced_then_it_says_how_many_of_how_many(
    deployed: dict[str, DeploymentState], state: tuple[str, str, str]
) -> None:
    assert conditions(shown(deployed), "componentDeploymentConditions") == {"AllComponentsDeployed": state}


def test_condition_when_a_component_has_no_deployment_yet_then_it_counts_as_not_deployed() -> None:
    status = shown({"cart": SYNCED}, components=("cart", "basket"))
    found = conditions(status, "componentDeploymentConditions")["AllComponentsDeployed"]
    assert found == ("False", "CommitsUnsynced", "1 of 2 components deployed")


def test_binding_when_all_is_right_then_it_is_reconciled_and_no_error_was_ever_shown() -> None:
    assert conditions(shown({"cart": SYNCED}), "bindingConditions") == {"Reconciled": ("True", "Reconciled", "")}


def test_binding_when_a_problem_comes_and_goes_then_both_conditions_follow() -> None:
    broken = shown({}, problem=BROKEN)
    assert conditions(broken, "bindingConditions") == {
        "ErrorOccurred": ("True", "ErrorOccurred", "not ready"),
        "Reconciled": ("False", "GitOpsRepoNotReady", "not ready"),
    }
    assert conditions(shown({}, previous=broken, second=1), "bindingConditions") == {
        "ErrorOccurred": ("False", "ErrorOccurredResolved", ""),
        "Reconciled": ("True", "Reconciled", ""),
    }


def test_status_when_nothing_changes_then_it_is_the_same_text_later_too() -> None:
    before = shown({"cart": SYNCED})
    assert shown({"cart": SYNCED}, previous=before, second=60) == before


def test_status_when_it_is_ours_then_it_has_none_of_the_members_of_the_build_service() -> None:
    assert json.loads(shown({"cart": SYNCED})).keys() == OWN_MEMBERS
