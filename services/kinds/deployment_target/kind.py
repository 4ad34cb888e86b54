"""Registry entry of DeploymentTarget."""

from __future__ import annotations

from pathlib import Path

from services.common.messages import UnownedKind
from services.kinds.deployment_target.catalogue import ENTRIES, NO_ERROR
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec, DeploymentTargetStatus
from services.kinds.deployment_target.rows import CLAIM_UID, FINALIZER, PROVISIONED_BY
from services.kinds.deployment_target_class.rules import CLASS_REFERENCE
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.decided import phase_status, recalled_phase
from services.kinds.shared.kind import Column, CustomKind, StatusInputs, condition_column
from services.kinds.shared.projection import Projection


def target_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed."""
    return phase_status(inputs, NO_ERROR)


KIND = CustomKind(
    resource=DEPLOYMENT_TARGET,
    default_quota=100,
    description="A namespace of a cluster that one claim can have.",
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
    reference=CLASS_REFERENCE,
    copied_secret="kubernetesCredentials.clusterCredentialsSecret",  # noqa: S106 - a path
    projection=Projection(annotations=frozenset({CLAIM_UID, PROVISIONED_BY}), finalizers=frozenset({FINALIZER})),
    unowned=(UnownedKind.TARGET,),
    compile_status=target_status,
    recalls_status=True,
    recall=recalled_phase,
)
