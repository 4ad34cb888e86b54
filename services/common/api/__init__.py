"""The custom resources as users write them. These models are the source of the CRDs in ``k8s/crds/``."""

from services.common.api.gitops_deployment import (
    FINALIZER,
    ApplicationDestination,
    ApplicationSource,
    GitOpsDeploymentSpec,
)
from services.common.api.managed_environment import ManagedEnvironmentSpec
from services.common.api.repository_credential import RepositoryCredentialSpec
from services.common.api.sync_run import SyncRunSpec

__all__ = [
    "FINALIZER",
    "ApplicationDestination",
    "ApplicationSource",
    "GitOpsDeploymentSpec",
    "ManagedEnvironmentSpec",
    "RepositoryCredentialSpec",
    "SyncRunSpec",
]
