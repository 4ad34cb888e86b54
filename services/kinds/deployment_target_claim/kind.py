"""Registry entry of DeploymentTargetClaim."""

from __future__ import annotations

from pathlib import Path

from services.common.messages import UnownedKind
from services.kinds.deployment_target_claim.catalogue import ENTRIES, NO_ERROR
from services.kinds.deployment_target_claim.model import (
    DEPLOYMENT_TARGET_CLAIM,
    NAME_RULE,
    DeploymentTargetClaimSpec,
    DeploymentTargetClaimStatus,
)
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, BOUND_BY_CONTROLLER, FINALIZER, PROVISIONER
from services.kinds.deployment_target_class.rules import CLASS_REFERENCE
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.decided import phase_status
from services.kinds.shared.kind import Column, CustomKind, StatusInputs, WaitExample, condition_column
from services.kinds.shared.projection import Projection


def claim_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed."""
    return phase_status(inputs, NO_ERROR)


KIND = CustomKind(
    resource=DEPLOYMENT_TARGET_CLAIM,
    default_quota=100,
    description="Asks for a target of a class, which is found, or made on demand.",
    purpose="asks for a deployment target, which is found or made",
    example=Path(__file__).with_name("example.yaml"),
    rules=(NAME_RULE,),
    spec=DeploymentTargetClaimSpec,
    status=DeploymentTargetClaimStatus,
    columns=(
        Column("Class", ".spec.deploymentTargetClassName"),
        Column("Phase", ".status.phase"),
        Column("Target", ".spec.targetName"),
        condition_column("Error", ERROR, "message", is_wide=True),
    ),
    short_names=("dtc",),
    waits=(WaitExample("it has a target", "jsonpath='{.status.phase}'=Bound"),),
    catalogue=ENTRIES,
    reference=CLASS_REFERENCE,
    projection=Projection(
        annotations=frozenset({BIND_COMPLETE, BOUND_BY_CONTROLLER, PROVISIONER}), finalizers=frozenset({FINALIZER})
    ),
    unowned=(UnownedKind.CLAIM, UnownedKind.TARGET, UnownedKind.SPACE_REQUEST),
    compile_status=claim_status,
)
