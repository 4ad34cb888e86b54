"""What a GitOpsDeployment shows of what Argo CD reports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from services.kinds.gitops_deployment import status
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.planner.engines.argocd.implementation import ArgoCD


def compiled(
    deployment: Deployment,
    observed: Observed | None,
    previous: str,
    when: datetime,
    environments: Mapping[UUID, str] | None = None,
) -> str:
    """As a plan has it compiled."""
    reported = observed.status if observed is not None else ""
    report = ArgoCD().read_status(reported, status.sync_error_shown(previous), environments or {})
    return status.compile_deployment_status(deployment, observed, report, previous, when)
