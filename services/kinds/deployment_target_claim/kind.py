"""Registry entry of DeploymentTargetClaim."""

from __future__ import annotations

from pathlib import Path

from services.kinds.deployment_target_claim.catalogue import ENTRIES
from services.kinds.deployment_target_claim.model import (
    DEPLOYMENT_TARGET_CLAIM,
    NAME_RULE,
    DeploymentTargetClaimSpec,
    DeploymentTargetClaimStatus,
)
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, DefinedKind, WaitExample, condition_column

KIND = DefinedKind(
    resource=DEPLOYMENT_TARGET_CLAIM,
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
)
