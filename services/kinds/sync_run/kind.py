"""Registry entry of GitOpsDeploymentSyncRun."""

from __future__ import annotations

from pathlib import Path

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind, Reference, WaitExample, condition_column
from services.kinds.sync_run.catalogue import ENTRIES
from services.kinds.sync_run.model import SYNC_RUN, SyncRunSpec, SyncRunStatus
from services.kinds.sync_run.status import sync_status

KIND = CustomKind(
    resource=SYNC_RUN,
    default_quota=200,
    description="Deploys once what a manual GitOpsDeployment names; deleting it while it runs ends the sync.",
    purpose="deploys once, now, what a manual GitOpsDeployment names",
    example=Path(__file__).with_name("example.yaml"),
    spec=SyncRunSpec,
    status=SyncRunStatus,
    columns=(
        Column("Deployment", ".spec.gitopsDeploymentName"),
        Column("Revision", ".spec.revisionID"),
        Column("Phase", ".status.operation.phase"),
        Column("Message", ".status.operation.message", is_wide=True),
        condition_column("Error", ERROR, "message", is_wide=True),
    ),
    short_names=("grun",),
    waits=(
        WaitExample("it has succeeded", "jsonpath='{.status.operation.phase}'=Succeeded"),
        WaitExample("it has failed, or is refused", f"condition={ERROR}"),
    ),
    catalogue=ENTRIES,
    reference=Reference("gitopsDeploymentName", GITOPS_DEPLOYMENT),
    finalizer=FINALIZER,
    audited=True,
    compile_status=sync_status,
    recalls_status=True,
)
