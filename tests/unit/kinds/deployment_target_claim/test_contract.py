"""What clients know by name of claims, targets and classes: conditions, finalizers, annotations, the shipped class."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from services.common.package_data import CRDS
from services.kinds.deployment_target import rows as target_rows
from services.kinds.deployment_target.kind import target_status
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim import rows as claim_rows
from services.kinds.deployment_target_claim.kind import claim_status
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.shared.decided import Decided
from services.kinds.shared.kind import StatusInputs
from tests.unit.kinds.given import conditions, inputs, resource


def given(kind: str, error: str) -> StatusInputs:
    return inputs(Decided("Pending").kept_in(resource(kind, "dev", {}), error))


@pytest.mark.parametrize(
    ("kind", "compiled"),
    [(DEPLOYMENT_TARGET_CLAIM.kind, claim_status), (DEPLOYMENT_TARGET.kind, target_status)],
    ids=["claim", "target"],
)
@pytest.mark.parametrize(
    ("error", "condition"),
    [("", ("False", "Success", "")), ("it is taken", ("True", "ErrorOccurred", "it is taken"))],
    ids=["nothing is wrong", "something is"],
)
def test_status_when_something_is_wrong_or_nothing_is_then_its_condition_has_the_documented_words(
    kind: str, compiled: Callable[[StatusInputs], str], error: str, condition: tuple[str, str, str]
) -> None:
    status = compiled(given(kind, error))
    assert (json.loads(status)["phase"], conditions(status)) == ("Pending", {"ErrorOccurred": condition})


def test_finalizers_and_annotations_when_written_then_they_have_the_documented_names() -> None:
    claim = (claim_rows.FINALIZER, claim_rows.BIND_COMPLETE, claim_rows.BOUND_BY_CONTROLLER, claim_rows.PROVISIONER)
    assert claim == (
        "binder.appstudio.redhat.com/finalizer",
        "dt.appstudio.redhat.com/bind-complete",
        "dt.appstudio.redhat.com/bound-by-controller",
        "provisioner.appstudio.redhat.com/dt-provisioner",
    )
    assert (target_rows.FINALIZER, target_rows.PROVISIONED_BY) == (
        "dt.appstudio.redhat.com/finalizer",
        "provisioner.appstudio.redhat.com/provisioned-by",
    )


def test_class_when_it_is_shipped_then_its_targets_are_namespaces_of_the_sandbox_and_go_with_their_claims() -> None:
    (shipped,) = (CRDS.parent / "classes").glob("*.yaml")
    manifest = yaml.safe_load(shipped.read_text())
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("DeploymentTargetClass", "isolation-level-namespace")
    assert manifest["spec"] == {"provisioner": "appstudio.redhat.com/devsandbox", "reclaimPolicy": "Delete"}
