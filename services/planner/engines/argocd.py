"""Compiles a tenant's deployments into Argo CD's Applications and AppProjects.

Project, destination, Application name and namespace come from the platform, never from what a user wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from services.common.api import GitOpsDeploymentSpec
from services.planner.canonical import canonical, digest
from services.planner.rows import Cause, EngineKey, EngineRow, Instance, Tenant

API_VERSION = "argoproj.io/v1alpha1"
APPLICATION = "Application"
APP_PROJECT = "AppProject"
APPLICATION_PREFIX = "gitopsdepl-"
PROJECT_PREFIX = "app-project-"
LOCAL_CLUSTER = "in-cluster"
MANAGED_BY = {"app.kubernetes.io/managed-by": "gitops-service"}
DATABASE_ID = "databaseID"

PROJECT_WAVE = 0
APPLICATION_WAVE = 1

RETRY = {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}}
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

    def key(self, kind: str, name: str) -> EngineKey:
        """Key of an object of the tenant."""
        return (self.instance.id, kind, self.instance.namespace, name)


def application_name(uid: str) -> str:
    """Name of the Application of the GitOpsDeployment with this uid."""
    return f"{APPLICATION_PREFIX}{uid}"


def uid_of(application: str) -> str:
    """The uid in an Application's name; "" if it is not one of ours."""
    return application.removeprefix(APPLICATION_PREFIX) if application.startswith(APPLICATION_PREFIX) else ""


def application(home: Home, deployment: UUID, uid: str, spec: GitOpsDeploymentSpec) -> str:
    """Canonical JSON of the Application that deploys ``spec``."""
    manifest = {
        "apiVersion": API_VERSION,
        "kind": APPLICATION,
        "metadata": {
            "name": application_name(uid),
            "namespace": home.instance.namespace,
            "labels": {DATABASE_ID: str(deployment)} | MANAGED_BY,
        },
        "spec": {
            "project": home.project,
            "source": _source(spec),
            "destination": {
                "name": LOCAL_CLUSTER,
                "namespace": spec.destination.namespace or home.tenant.namespace,
            },
        }
        | _sync_policy(spec),
    }
    return canonical(manifest)


def app_project(home: Home, repositories: Iterable[str]) -> str:
    """Canonical JSON of the AppProject that confines a tenant to its repositories and its own namespace."""
    manifest = {
        "apiVersion": API_VERSION,
        "kind": APP_PROJECT,
        "metadata": {
            "name": home.project,
            "namespace": home.instance.namespace,
            "labels": MANAGED_BY,
            "annotations": {"username": str(home.tenant.id)},
        },
        "spec": {
            "sourceRepos": sorted(repositories),
            "destinations": [{"name": LOCAL_CLUSTER, "namespace": home.tenant.namespace}],
        },
    }
    return canonical(manifest)


def application_row(
    home: Home, uid: str, manifest: str, desired: Literal["present", "absent"], cause: Cause
) -> EngineRow:
    """The row of an Application."""
    return _row(home, (APPLICATION, application_name(uid), APPLICATION_WAVE), manifest, desired, cause)


def project_row(home: Home, manifest: str, desired: Literal["present", "absent"], cause: Cause) -> EngineRow:
    """The row of a tenant's AppProject."""
    return _row(home, (APP_PROJECT, home.project, PROJECT_WAVE), manifest, desired, cause)


def _row(
    home: Home,
    kind_name_wave: tuple[str, str, int],
    manifest: str,
    desired: Literal["present", "absent"],
    cause: Cause,
) -> EngineRow:
    kind, name, wave = kind_name_wave
    return EngineRow(
        engine_instance_id=home.instance.id,
        kind=kind,
        namespace=home.instance.namespace,
        name=name,
        workspace=home.tenant.workspace,
        tenant_namespace=home.tenant.namespace,
        lane=home.project,
        wave=wave,
        desired=desired,
        manifest=manifest,
        digest=digest(manifest),
        trace_id=cause.trace_id,
        seen_at=cause.at,
    )


def _source(spec: GitOpsDeploymentSpec) -> dict[str, str]:
    source = {"repoURL": spec.source.repo_url, "path": spec.source.path}
    revision = {"targetRevision": spec.source.target_revision} if spec.source.target_revision else {}
    return source | revision


def _sync_policy(spec: GitOpsDeploymentSpec) -> dict[str, Any]:
    if spec.automated:
        options = [PRUNE_IN_BACKGROUND, *spec.sync_options]
        return {"syncPolicy": {"automated": AUTOMATED, "syncOptions": options, "retry": RETRY}}
    return {"syncPolicy": {"syncOptions": spec.sync_options}} if spec.sync_options else {}
