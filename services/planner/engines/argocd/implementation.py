"""Argo CD behind the planner's interface."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

import orjson

from services.common.argocd_names import application_name, uid_of
from services.common.argocd_versions import TESTED, is_known, parsed_version
from services.common.json_values import canonical
from services.common.messages.compiled import AT_ONCE, RELEASE, RowKind
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.gitops_deployment.status import EngineReport
from services.kinds.shared.connections import Cluster, Connection, Repository
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.engines.argocd import applications, recipes
from services.planner.engines.argocd.application_status import is_syncing, read_application_status, with_last_operation
from services.planner.engines.argocd.load import LOADS
from services.planner.engines.argocd.names import project_name
from services.planner.engines.argocd.repository_access import needs_login
from services.planner.engines.interface import Confinement, Manifest, Placement, Target
from services.planner.rows.compiled import EngineObjectKey

WAVES: Mapping[str, int] = {
    RowKind.APP_PROJECT: 0,
    RowKind.CLUSTER_SECRET: 0,
    RowKind.REPOSITORY_SECRET: 0,
    RowKind.APPLICATION: 1,
    RowKind.SYNC_OPERATION: 2,
}
"""By kind of row: what comes first where a tenant's objects are made."""


class ArgoCD:
    """See the module."""

    def lane(self, tenant: UUID) -> str:
        """Name of the tenant's AppProject."""
        return _lane(tenant)

    def load_of(self, kind: str) -> int:
        """See the interface."""
        return LOADS.get(kind, 0)

    def deployment_key(self, uid: str) -> EngineObjectKey:
        """See the interface."""
        return (RowKind.APPLICATION.value, application_name(uid))

    def deployment_uid(self, key: EngineObjectKey) -> str | None:
        """See the interface."""
        kind, name = key
        return uid_of(name) if kind == RowKind.APPLICATION else None

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

    def objects(
        self, placement: Placement, resource: PlainResource, connection: Connection, *, cluster_resources: bool
    ) -> tuple[Manifest, ...]:
        """Recipes: of a cluster secret, or of repository secrets, one for each AppProject."""
        match connection:
            case Cluster():
                kind, made = RowKind.CLUSTER_SECRET, recipes.cluster_secret(placement, resource, connection)
            case Repository():
                kind = RowKind.REPOSITORY_SECRET
                made = recipes.repository_secrets(placement, resource, connection, in_cluster_project=cluster_resources)
        return tuple(_manifest((kind.value, name), text) for name, text in made.items())

    def sync_request(
        self, placement: Placement, deployment_uid: str, run_uid: str, run: SyncRun, revision: str
    ) -> Manifest:
        """A sync request, which an agent turns into an Application's operation."""
        text = recipes.sync_operation(placement, deployment_uid, run_uid, run, revision)
        return _manifest((RowKind.SYNC_OPERATION.value, application_name(deployment_uid)), text)

    def released(self, manifest: Manifest, *, at_once: bool) -> Manifest:
        """An Application that an agent takes from its Argo CD without a trace on the cluster that it deployed to."""
        return _marked(manifest, RELEASE, AT_ONCE) if at_once else _marked(manifest, RELEASE)

    def handed_over(self, manifest: Manifest) -> Manifest:
        """A recipe of a Secret; a service account that was made with it is another instance's by now."""
        return _marked(manifest, RELEASE)

    def read_status(self, status: str, sync_error: str | None, environments: Mapping[UUID, str]) -> EngineReport:
        """Of an Application's status."""
        return read_application_status(status, sync_error, environments)

    def with_last_operation(self, status: str, before: str) -> str:
        """See the interface."""
        return with_last_operation(status, before)

    def is_syncing(self, status: str) -> bool:
        """See the interface."""
        return is_syncing(status)

    def needs_login(self, failure: str) -> bool:
        """See the interface."""
        return needs_login(failure)

    def knows_version(self, version: str) -> bool:
        """See the interface."""
        parsed = parsed_version(version)
        return parsed is not None and str(parsed) == version and is_known(parsed)

    def is_tested(self, version: str) -> bool:
        """See the interface."""
        return version in TESTED


@lru_cache(maxsize=4096)
def _lane(tenant: UUID) -> str:
    return project_name(tenant)


def _marked(manifest: Manifest, *marks: str) -> Manifest:
    return _manifest(manifest.key, canonical(orjson.loads(manifest.text) | dict.fromkeys(marks, True)))


def _manifest(key: EngineObjectKey, text: str) -> Manifest:
    kind, name = key
    return Manifest(kind, name, WAVES[kind], text)
