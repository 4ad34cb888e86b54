"""Compiles a tenant's deployments into Argo CD's Applications and AppProjects.

Project, destination, Application name and namespace come from the platform, never from what a user wrote.

A tenant has one AppProject, ``app-project-<id>``, without any right to resources outside of namespaces. Where an
environment grants that right, a second one, ``app-project-<id>-cluster``, holds it: Argo CD checks such resources
against the project alone, so in the first one the right would reach every destination of the tenant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from services.common.argocd_names import API_VERSION, APP_PROJECT, APPLICATION, LOCAL_CLUSTER, application_name
from services.common.json_values import canonical
from services.common.ownership import OURS
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.planner.engines.argocd.names import DATABASE_ID, cluster_name, cluster_project_name, project_name
from services.planner.engines.interface import LOCAL, Confinement, Destination, Placement, Target

SYNC_ACCOUNT = "gitops-service-sync"
"""Service account in a tenant's namespace, which the platform makes: ``k8s/argocd/impersonation``."""
LOCAL_SERVER = "https://kubernetes.default.svc"

RETRY = {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}, "refresh": True}
"""refresh: retry at the newest commit, not at the one that failed."""
AUTOMATED = {"prune": True, "selfHeal": True, "allowEmpty": True}
PRUNE_IN_BACKGROUND = "PrunePropagationPolicy=background"


def application(
    placement: Placement, deployment: UUID, uid: str, spec: GitOpsDeploymentSpec, target: Target = LOCAL
) -> str:
    """Canonical JSON of the Application that deploys ``spec``.

    Agents apply only the fields of its spec that ``services/agent/objects/managed_kinds.py`` lists.
    """
    project = cluster_project_name if target.cluster_resources else project_name
    manifest = {
        "apiVersion": API_VERSION,
        "kind": APPLICATION,
        "metadata": {
            "name": application_name(uid),
            "namespace": placement.instance.namespace,
            "labels": {DATABASE_ID: str(deployment)} | OURS,
        },
        "spec": {
            "project": project(placement.tenant.id),
            "source": _source(spec),
            "destination": {
                "name": _cluster(target),
                "namespace": spec.destination.namespace or placement.tenant.namespace,
            },
        }
        | _sync_policy(spec),
    }
    return canonical(manifest)


def app_projects(placement: Placement, confinement: Confinement) -> dict[str, str]:
    """Canonical JSON of the AppProjects that confine a tenant to its repositories and destinations, by name.

    Argo CD checks kinds against the project alone: those that are refused can be deployed to none of its destinations.
    """
    repositories = sorted(confinement.repositories)
    ordinary = [each for each in confinement.destinations if not each.cluster_resources]
    spec: dict[str, Any] = {"sourceRepos": repositories, "destinations": _listed(ordinary)}
    if kinds := [{"group": each.group, "kind": each.kind} for each in sorted(confinement.refused_kinds)]:
        spec["namespaceResourceBlacklist"] = kinds
    if accounts := _sync_accounts(ordinary):
        spec["destinationServiceAccounts"] = accounts
    projects = {project_name(placement.tenant.id): spec}
    if privileged := [each for each in confinement.destinations if each.cluster_resources]:
        projects[cluster_project_name(placement.tenant.id)] = {
            "sourceRepos": repositories,
            "destinations": _listed(privileged),
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            # A second lock: its clusters' secrets name this project, and no other cluster will do.
            "permitOnlyProjectScopedClusters": True,
        }
    return {name: _project(placement, name, spec) for name, spec in projects.items()}


def _cluster(target: Target) -> str:
    """Name by which Argo CD knows the cluster; an empty one it takes for no cluster."""
    if target.environment is not None:
        return cluster_name(target.environment)
    return LOCAL_CLUSTER if target.is_local else ""


def _listed(destinations: Iterable[Destination]) -> list[dict[str, str]]:
    """As an AppProject lists them."""
    return [
        {"name": name, "namespace": namespace}
        for name, namespaces in sorted((_name(each), each.namespaces) for each in destinations)
        for namespace in namespaces or ("*",)
    ]


def _sync_accounts(destinations: Iterable[Destination]) -> list[dict[str, str]]:
    """As whom an instance that impersonates syncs to its own cluster: an account of the namespace. Others ignore it."""
    return [
        {"server": LOCAL_SERVER, "namespace": namespace, "defaultServiceAccount": SYNC_ACCOUNT}
        for each in destinations
        if each.environment is None
        for namespace in each.namespaces
    ]


def _name(destination: Destination) -> str:
    return LOCAL_CLUSTER if destination.environment is None else cluster_name(destination.environment)


def _project(placement: Placement, name: str, spec: dict[str, Any]) -> str:
    metadata = {
        "name": name,
        "namespace": placement.instance.namespace,
        "labels": OURS,
        "annotations": {"username": str(placement.tenant.id)},
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
