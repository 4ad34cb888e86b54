"""The custom resources as users write them. These models are the source of the CRDs in ``k8s/crds/``."""

from services.common.api.conditions import Condition
from services.common.api.gitops_deployment import (
    FINALIZER,
    ApplicationDestination,
    ApplicationSource,
    GitOpsDeploymentSpec,
    GitOpsDeploymentStatus,
    ReconciledState,
    ResourceStatus,
    SyncPolicy,
    SyncStatus,
)

__all__ = [
    "FINALIZER",
    "ApplicationDestination",
    "ApplicationSource",
    "Condition",
    "GitOpsDeploymentSpec",
    "GitOpsDeploymentStatus",
    "ReconciledState",
    "ResourceStatus",
    "SyncPolicy",
    "SyncStatus",
]
