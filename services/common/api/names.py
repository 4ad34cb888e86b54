"""What the kinds of the API are called, and what their specs name: the one source for CRDs, clients and rules."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "managed-gitops.redhat.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

SECRET = "Secret"  # noqa: S105 - a kind
ENVIRONMENT_SECRET = f"{GROUP}/managed-environment"
CREDENTIAL_SECRET = f"{GROUP}/repository-credential"
SECRET_TYPES = (ENVIRONMENT_SECRET, CREDENTIAL_SECRET)
"""Types of Secrets that are made for us."""


@dataclass(frozen=True, slots=True)
class KindNames:
    """How one kind is called, and what a resource of it names."""

    kind: str
    plural: str
    reference: str = ""
    """The field of the spec that names another resource of the same namespace; empty: none does."""
    refers_to: str = ""
    """Of which kind that is."""


GITOPS_DEPLOYMENT = KindNames("GitOpsDeployment", "gitopsdeployments")
MANAGED_ENVIRONMENT = KindNames(
    "GitOpsDeploymentManagedEnvironment", "gitopsdeploymentmanagedenvironments", "credentialsSecret", SECRET
)
REPOSITORY_CREDENTIAL = KindNames(
    "GitOpsDeploymentRepositoryCredential", "gitopsdeploymentrepositorycredentials", "secret", SECRET
)
SYNC_RUN = KindNames(
    "GitOpsDeploymentSyncRun", "gitopsdeploymentsyncruns", "gitopsDeploymentName", GITOPS_DEPLOYMENT.kind
)
NAMES = (GITOPS_DEPLOYMENT, MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN)
