"""Registry entry of DeploymentTargetClass."""

from __future__ import annotations

from pathlib import Path

from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS, DeploymentTargetClassSpec
from services.kinds.shared.kind import Column, OperatorKind

KIND = OperatorKind(
    resource=DEPLOYMENT_TARGET_CLASS,
    scope="Cluster",
    description="Who makes targets of this class, and what becomes of them after their claim.",
    purpose="a sort of deployment targets, and who makes them",
    example=Path(__file__).with_name("example.yaml"),
    spec=DeploymentTargetClassSpec,
    status=None,
    columns=(Column("Provisioner", ".spec.provisioner"), Column("Reclaim Policy", ".spec.reclaimPolicy")),
    short_names=("dtcls",),
    catalogue=(),
)
