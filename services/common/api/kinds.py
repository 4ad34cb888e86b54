"""Every kind of the API in one table: what CRDs, documentation and tests are made from."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.api.gitops_deployment import GitOpsDeploymentSpec, GitOpsDeploymentStatus
from services.common.api.managed_environment import ManagedEnvironmentSpec, ManagedEnvironmentStatus
from services.common.api.model import ApiModel
from services.common.api.names import GITOPS_DEPLOYMENT, MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN, KindNames
from services.common.api.repository_credential import RepositoryCredentialSpec, RepositoryCredentialStatus
from services.common.api.sync_run import SyncRunSpec, SyncRunStatus


@dataclass(frozen=True, slots=True)
class Column:
    """One column of ``kubectl get``."""

    heading: str
    path: str
    """JSON path."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of the API: its names, its models and the columns that ``kubectl get`` prints."""

    names: KindNames
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[Column, ...]

    @property
    def kind(self) -> str:
        """As manifests say it."""
        return self.names.kind

    @property
    def plural(self) -> str:
        """As paths and ``kubectl`` say it."""
        return self.names.plural

    @property
    def page(self) -> str:
        """Name of its page in the documentation for users, and of its example, without the ending."""
        return self.kind.lower()


def _condition(type_: str, member: str) -> str:
    return f".status.conditions[?(@.type=='{type_}')].{member}"


KINDS = (
    Kind(
        names=GITOPS_DEPLOYMENT,
        description="Deploys what a Git repository holds at a path, and reports what became of it.",
        spec=GitOpsDeploymentSpec,
        status=GitOpsDeploymentStatus,
        columns=(Column("Sync Status", ".status.sync.status"), Column("Health Status", ".status.health.status")),
    ),
    Kind(
        names=MANAGED_ENVIRONMENT,
        description="A cluster, or some namespaces of one, that GitOpsDeployments of the same namespace may go to.",
        spec=ManagedEnvironmentSpec,
        status=ManagedEnvironmentStatus,
        columns=(
            Column("Connected", _condition("ConnectionInitializationSucceeded", "status")),
            Column("Reason", _condition("ConnectionInitializationSucceeded", "reason")),
        ),
    ),
    Kind(
        names=REPOSITORY_CREDENTIAL,
        description="How GitOpsDeployments of the same namespace log in to a private Git repository.",
        spec=RepositoryCredentialSpec,
        status=RepositoryCredentialStatus,
        columns=(
            Column("Valid", _condition("ValidRepositoryCredential", "status")),
            Column("Reason", _condition("ValidRepositoryCredential", "reason")),
        ),
    ),
    Kind(
        names=SYNC_RUN,
        description="Deploys once what a manual GitOpsDeployment names; deleting it while it runs ends the sync.",
        spec=SyncRunSpec,
        status=SyncRunStatus,
        columns=(
            Column("Deployment", ".spec.gitopsDeploymentName"),
            Column("Revision", ".spec.revisionID"),
            Column("Phase", ".status.operation.phase"),
        ),
    ),
)
