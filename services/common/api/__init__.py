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
from services.common.api.managed_environment import ManagedEnvironmentSpec, ManagedEnvironmentStatus
from services.common.api.repository_credential import RepositoryCredentialSpec, RepositoryCredentialStatus
from services.common.api.sync_run import SyncRunOperation, SyncRunSpec, SyncRunStatus

__all__ = [
    "FINALIZER",
    "ApplicationDestination",
    "ApplicationSource",
    "Condition",
    "GitOpsDeploymentSpec",
    "GitOpsDeploymentStatus",
    "ManagedEnvironmentSpec",
    "ManagedEnvironmentStatus",
    "ReconciledState",
    "RepositoryCredentialSpec",
    "RepositoryCredentialStatus",
    "ResourceStatus",
    "SyncPolicy",
    "SyncRunOperation",
    "SyncRunSpec",
    "SyncRunStatus",
    "SyncStatus",
]
