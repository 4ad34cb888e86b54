"""Compiles a tenant's deployments into Argo CD's Applications and AppProjects.

Project, destination, Application name and namespace come from the platform, never from what a user wrote.

A tenant has one AppProject, ``app-project-<id>``, without any right to resources outside of namespaces. Where an
environment grants that right, a second one, ``app-project-<id>-cluster``, holds it: Argo CD checks such resources
against the project alone, so in the first one the right would reach every destination of the tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from services.common.api import GitOpsDeploymentSpec
from services.common.argocd_names import API_VERSION, APP_PROJECT, APPLICATION, LOCAL_CLUSTER, application_name
from services.common.messages.compiled import RowKind
from services.common.ownership import OURS
from services.planner.canonical import canonical, digest
from services.planner.rows import Cause, Desired, EngineKey, EngineRow, Instance, Tenant
from services.planner.rules import GroupKind

PROJECT_PREFIX = "app-project-"
DATABASE_ID = "databaseID"

CLUSTER_SUFFIX = "-cluster"

MAX_MANIFEST = 1024 * 1024
"""Bytes. An API server stores no object longer than 1.5 MiB, and Kafka Connect stops at a message longer than 4."""

WAVES: Mapping[str, int] = {
    RowKind.APP_PROJECT: 0,
    RowKind.CLUSTER_SECRET: 0,
    RowKind.REPOSITORY_SECRET: 0,
    RowKind.APPLICATION: 1,
    RowKind.SYNC_OPERATION: 2,
}
"""By kind of engine row: what comes first where a tenant's objects are made."""

RETRY = {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}, "refresh": True}
"""Refreshed: otherwise a commit that the cluster refuses is tried for ever, and the one that mends it never."""
AUTOMATED = {"prune": True, "selfHeal": True, "allowEmpty": True}
PRUNE_IN_BACKGROUND = "PrunePropagationPolicy=background"


@dataclass(frozen=True, slots=True)
class Home:
    """Where a tenant's objects are."""

    tenant: Tenant
    instance: Instance

    @property
    def project(self) -> str:
        """Name of the tenant's AppProject, which is also its lane."""
        return f"{PROJECT_PREFIX}{self.tenant.id}"

    @property
    def cluster_project(self) -> str:
        """Name of the AppProject for environments that allow resources outside of namespaces."""
        return f"{self.project}{CLUSTER_SUFFIX}"

    def key(self, kind: str, name: str) -> EngineKey:
        """Key of an object of the tenant."""
        return (self.instance.id, kind, self.instance.namespace, name, self.project)


@dataclass(frozen=True, slots=True)
class Target:
    """Where an Application deploys to."""

    cluster: str
    """Name by which Argo CD knows the cluster; empty if the environment is gone, which Argo CD takes for no cluster."""
    cluster_resources: bool = False


LOCAL = Target(LOCAL_CLUSTER)


def application(home: Home, deployment: UUID, uid: str, spec: GitOpsDeploymentSpec, target: Target = LOCAL) -> str:
    """Canonical JSON of the Application that deploys ``spec``."""
    manifest = {
        "apiVersion": API_VERSION,
        "kind": APPLICATION,
        "metadata": {
            "name": application_name(uid),
            "namespace": home.instance.namespace,
            "labels": {DATABASE_ID: str(deployment)} | OURS,
        },
        "spec": {
            "project": home.cluster_project if target.cluster_resources else home.project,
            "source": _source(spec),
            "destination": {
                "name": target.cluster,
                "namespace": spec.destination.namespace or home.tenant.namespace,
            },
        }
        | _sync_policy(spec),
    }
    return canonical(manifest)


@dataclass(frozen=True, slots=True)
class Destination:
    """An environment that a tenant's Applications may deploy to."""

    cluster: str
    namespaces: tuple[str, ...]
    """Empty: all of them."""

    def entries(self) -> list[dict[str, str]]:
        """As an AppProject lists it."""
        return [{"name": self.cluster, "namespace": namespace} for namespace in self.namespaces or ("*",)]


def app_project(
    home: Home, repositories: Iterable[str], destinations: Iterable[Destination], refused: Iterable[GroupKind] = ()
) -> str:
    """Canonical JSON of the AppProject that confines a tenant to its repositories and destinations.

    ``refused`` kinds cannot be deployed to any of these destinations: Argo CD checks kinds against the project alone.
    """
    allowed = [entry for destination in destinations for entry in destination.entries()]
    spec: dict[str, Any] = {"sourceRepos": sorted(repositories), "destinations": allowed}
    if kinds := [{"group": each.group, "kind": each.kind} for each in sorted(refused)]:
        spec["namespaceResourceBlacklist"] = kinds
    return _project(home, home.project, spec)


def cluster_project(home: Home, repositories: Iterable[str], destinations: Iterable[Destination]) -> str:
    """Canonical JSON of the AppProject for environments that allow resources outside of namespaces."""
    allowed = [entry for destination in destinations for entry in destination.entries()]
    spec = {
        "sourceRepos": sorted(repositories),
        "destinations": allowed,
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        # A second lock: its clusters' secrets name this project, and no other cluster will do.
        "permitOnlyProjectScopedClusters": True,
    }
    return _project(home, home.cluster_project, spec)


def is_oversized(manifest: str) -> bool:
    """Whether it must not be written: who cannot take it would come to a stop for everybody."""
    return len(manifest.encode()) > MAX_MANIFEST


def row(home: Home, kind: str, name: str, manifest: str, desired: Desired, cause: Cause) -> EngineRow:
    """The row of an object of the tenant."""
    return EngineRow(
        engine_instance_id=home.instance.id,
        kind=kind,
        namespace=home.instance.namespace,
        name=name,
        workspace=home.tenant.workspace,
        tenant_namespace=home.tenant.namespace,
        lane=home.project,
        wave=WAVES[kind],
        desired=desired,
        manifest=manifest,
        digest=digest(manifest),
        trace_id=cause.trace_id,
        seen_at=cause.at,
    )


def _project(home: Home, name: str, spec: dict[str, Any]) -> str:
    metadata = {
        "name": name,
        "namespace": home.instance.namespace,
        "labels": OURS,
        "annotations": {"username": str(home.tenant.id)},
    }
    return canonical({"apiVersion": API_VERSION, "kind": APP_PROJECT, "metadata": metadata, "spec": spec})


def _source(spec: GitOpsDeploymentSpec) -> dict[str, str]:
    source = {"repoURL": spec.source.repo_url, "path": spec.source.path}
    revision = {"targetRevision": spec.source.target_revision} if spec.source.target_revision else {}
    return source | revision


def _sync_policy(spec: GitOpsDeploymentSpec) -> dict[str, Any]:
    if spec.automated:
        options = [PRUNE_IN_BACKGROUND, *spec.sync_options]
        return {"syncPolicy": {"automated": AUTOMATED, "syncOptions": options, "retry": RETRY}}
    return {"syncPolicy": {"syncOptions": spec.sync_options}} if spec.sync_options else {}
