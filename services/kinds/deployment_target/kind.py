"""Registry entry of DeploymentTarget."""

from __future__ import annotations

from pathlib import Path

from services.kinds.deployment_target.catalogue import ENTRIES
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec, DeploymentTargetStatus
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, DefinedKind, condition_column

KIND = DefinedKind(
    resource=DEPLOYMENT_TARGET,
    description="A namespace of a cluster that one claim, and so one environment, can have.",
    purpose="a namespace of a cluster that can be claimed",
    example=Path(__file__).with_name("example.yaml"),
    spec=DeploymentTargetSpec,
    status=DeploymentTargetStatus,
    columns=(
        Column("Class", ".spec.deploymentTargetClassName"),
        Column("Phase", ".status.phase"),
        Column("Claim", ".spec.claimRef"),
        Column("Namespace", ".spec.kubernetesCredentials.defaultNamespace", is_wide=True),
        Column("API URL", ".spec.kubernetesCredentials.apiURL", is_wide=True),
        condition_column("Error", ERROR, "message", is_wide=True),
    ),
    short_names=("dt",),
    catalogue=ENTRIES,
)
