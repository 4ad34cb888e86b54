"""Registry entry of GitOpsDeployment."""

from __future__ import annotations

from pathlib import Path

from services.kinds.gitops_deployment.catalogue import ENTRIES
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT, GitOpsDeploymentSpec, GitOpsDeploymentStatus
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.api_group import FINALIZER, is_appstudio_label
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind, WaitExample, condition_column
from services.kinds.shared.projection import Projection

KIND = CustomKind(
    resource=GITOPS_DEPLOYMENT,
    default_quota=1000,
    description="Deploys what a Git repository holds at a path, and reports what became of it.",
    purpose="deploys a folder of a repository",
    example=Path(__file__).with_name("example.yaml"),
    spec=GitOpsDeploymentSpec,
    status=GitOpsDeploymentStatus,
    columns=(
        Column("Sync Status", ".status.sync.status"),
        Column("Health Status", ".status.health.status"),
        Column("Environment", ".spec.destination.environment", is_wide=True),
        Column("Revision", ".status.sync.revision", is_wide=True),
        condition_column("Error", ERROR, "message", is_wide=True),
    ),
    short_names=("gdep",),
    waits=(
        WaitExample("what runs is what Git says", "jsonpath='{.status.sync.status}'=Synced"),
        WaitExample("what was deployed works", "jsonpath='{.status.health.status}'=Healthy"),
    ),
    catalogue=ENTRIES,
    row=Deployment,
    projection=Projection(labels=is_appstudio_label, owner_references=True),
    finalizer=FINALIZER,
    audited=True,
)
