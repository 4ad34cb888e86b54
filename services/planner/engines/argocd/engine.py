"""Argo CD behind the planner's interface."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from services.common.argocd_names import application_name, uid_of
from services.common.messages.compiled import RowKind
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.gitops_deployment.status import Report
from services.kinds.managed_environment.model import ManagedEnvironmentSpec
from services.kinds.repository_credential.model import RepositoryCredentialSpec
from services.kinds.secret.rules import SealedSecret
from services.kinds.sync_run.rows import SyncRun
from services.planner.engines.argocd import applications, recipes
from services.planner.engines.argocd.names import cluster_name, id_of, project_name, repository_name
from services.planner.engines.argocd.report import report
from services.planner.engines.interface import Confinement, Manifest, Placement, Subject, Target
from services.planner.rows import ObjectKey, Role

WAVES: Mapping[str, int] = {
    RowKind.APP_PROJECT: 0,
    RowKind.CLUSTER_SECRET: 0,
    RowKind.REPOSITORY_SECRET: 0,
    RowKind.APPLICATION: 1,
    RowKind.SYNC_OPERATION: 2,
}
"""By kind of row: what comes first where a tenant's objects are made."""

OWNED = {RowKind.CLUSTER_SECRET: Role.ENVIRONMENT, RowKind.REPOSITORY_SECRET: Role.CREDENTIAL}


class ArgoCD:
    """See the module."""

    shared_kinds = tuple(sorted(kind.value for kind in RowKind if kind != RowKind.APPLICATION))

    def lane(self, tenant: UUID) -> str:
        """Name of the tenant's AppProject."""
        return _lane(tenant)

    def subject(self, kind: str, name: str) -> Subject | None:
        """See the interface."""
        match kind:
            case RowKind.APPLICATION:
                return Subject(Role.DEPLOYMENT, uid=uid_of(name))
            case RowKind.SYNC_OPERATION:
                return Subject(Role.SYNC, uid=uid_of(name))
            case RowKind.APP_PROJECT:
                return Subject(Role.PROJECT)
            case RowKind.CLUSTER_SECRET | RowKind.REPOSITORY_SECRET:
                owner = id_of(name)
                return Subject(OWNED[RowKind(kind)], owner=owner) if owner is not None else None
            case _:
                return None

    def deployment_key(self, uid: str) -> ObjectKey:
        """See the interface."""
        return (RowKind.APPLICATION.value, application_name(uid))

    def sync_key(self, uid: str) -> ObjectKey:
        """See the interface."""
        return (RowKind.SYNC_OPERATION.value, application_name(uid))

    def environment_key(self, environment: UUID) -> ObjectKey:
        """See the interface."""
        return (RowKind.CLUSTER_SECRET.value, cluster_name(environment))

    def credential_key(self, credential: UUID) -> ObjectKey:
        """See the interface."""
        return (RowKind.REPOSITORY_SECRET.value, repository_name(credential))

    def deployment(
        self, placement: Placement, deployment: UUID, uid: str, spec: GitOpsDeploymentSpec, target: Target
    ) -> Manifest:
        """An Application."""
        return _manifest(self.deployment_key(uid), applications.application(placement, deployment, uid, spec, target))

    def projects(self, placement: Placement, confinement: Confinement) -> tuple[Manifest, ...]:
        """One AppProject, and another one if an environment allows resources outside of namespaces."""
        return tuple(
            _manifest((RowKind.APP_PROJECT.value, name), text)
            for name, text in applications.app_projects(placement, confinement).items()
        )

    def environment(
        self,
        placement: Placement,
        environment: UUID,
        uid: str,
        spec: ManagedEnvironmentSpec,
        secret: SealedSecret | None,
    ) -> Manifest:
        """The recipe of a cluster secret."""
        text = recipes.cluster_secret(placement, environment, uid, spec, secret)
        return _manifest(self.environment_key(environment), text)

    def credential(
        self,
        placement: Placement,
        credential: UUID,
        uid: str,
        spec: RepositoryCredentialSpec,
        secret: SealedSecret | None,
        *,
        cluster_resources: bool,
    ) -> tuple[Manifest, ...]:
        """Recipes of repository secrets: one for each AppProject."""
        made = recipes.repository_secrets(
            placement, credential, uid, spec, secret, in_cluster_project=cluster_resources
        )
        return tuple(_manifest((RowKind.REPOSITORY_SECRET.value, name), text) for name, text in made.items())

    def sync(self, placement: Placement, deployment_uid: str, run_uid: str, run: SyncRun, revision: str) -> Manifest:
        """An order that an agent turns into an Application's operation."""
        text = recipes.sync_operation(placement, deployment_uid, run_uid, run, revision)
        return _manifest(self.sync_key(deployment_uid), text)

    def report(self, status: str, sync_error: str | None, environments: Mapping[UUID, str]) -> Report:
        """Of an Application's status."""
        return report(status, sync_error, environments)


@lru_cache(maxsize=4096)
def _lane(tenant: UUID) -> str:
    return project_name(tenant)


def _manifest(key: ObjectKey, text: str) -> Manifest:
    kind, name = key
    return Manifest(kind, name, WAVES[kind], text)
