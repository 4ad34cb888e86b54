"""Compiles environments and credentials to recipes, and sync runs to sync requests: what only an agent can carry out.

An agent holds the keys to sealed Secrets, so it composes Argo CD's Secrets out of these recipes; and it alone sees
whether an Application is busy, so it starts syncs.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from services.common.argocd_names import (
    API_VERSION,
    APPLICATION,
    CLUSTER_SUFFIX,
    SECRET_TYPE_LABEL,
    application_name,
)
from services.common.json_values import canonical
from services.common.ownership import OURS
from services.kinds.shared.connections import Cluster, Repository, SealedSecret
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.engines.argocd.names import (
    DATABASE_ID,
    cluster_name,
    cluster_project_name,
    project_name,
    repository_name,
)
from services.planner.engines.interface import Placement


def cluster_secret(placement: Placement, resource: PlainResource, cluster: Cluster) -> dict[str, str]:
    """Canonical JSON of the recipe of a cluster secret, by its name.

    The query in the server's URL makes one cluster, used by several tenants, several clusters to Argo CD.
    """
    name = cluster_name(resource.id)
    recipe = {
        "uid": resource.uid,
        "apiURL": cluster.api_url,
        "server": f"{cluster.api_url}?managedEnvironment={resource.id}",
        "insecure": cluster.skips_tls_verification,
        "createServiceAccount": cluster.creates_account,
        "namespaces": list(cluster.namespaces),
        "clusterResources": cluster.cluster_resources,
        "project": (cluster_project_name if cluster.cluster_resources else project_name)(placement.tenant.id),
    } | _sealed(placement, cluster.secret)
    return {name: _recipe(placement, name, resource.id, "cluster", recipe)}


def repository_secrets(
    placement: Placement, resource: PlainResource, repository: Repository, *, in_cluster_project: bool
) -> dict[str, str]:
    """Canonical JSON of the recipes of its repository secrets, by name: one for each AppProject that may use it."""
    name = repository_name(resource.id)
    tenant = placement.tenant.id
    privileged = {name + CLUSTER_SUFFIX: cluster_project_name(tenant)} if in_cluster_project else {}
    projects = {name: project_name(tenant)} | privileged
    recipe = {"uid": resource.uid, "repository": repository.url} | _sealed(placement, repository.secret)
    return {
        each: _recipe(placement, each, resource.id, "repository", recipe | {"project": project})
        for each, project in projects.items()
    }


def sync_operation(placement: Placement, deployment_uid: str, run_uid: str, run: SyncRun, revision: str) -> str:
    """Canonical JSON of the request to sync an Application, or to end that sync.

    Once its sync was seen to have begun the request says so: the Application remembers that only while it lives.
    """
    begun = {"begun": True} if run.phase else {}
    manifest = {
        "apiVersion": API_VERSION,
        "kind": APPLICATION,
        "metadata": {"name": application_name(deployment_uid), "namespace": placement.instance.namespace},
        "operation": {
            "run": run_uid,
            "sequence": run.sequence,
            "revision": revision,
            "state": "Terminated" if run.state == "Terminating" else "Running",
        }
        | begun,
    }
    return canonical(manifest)


def _recipe(placement: Placement, name: str, owner: UUID, secret_type: str, recipe: dict[str, Any]) -> str:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": placement.instance.namespace,
        "labels": {SECRET_TYPE_LABEL: secret_type, DATABASE_ID: str(owner)} | OURS,
    }
    if secret_type == "repository":  # noqa: S105 - Argo CD's word
        metadata["annotations"] = {"managed-by": "argocd.argoproj.io"}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "recipe": recipe}
    return canonical(manifest)


def _sealed(placement: Placement, secret: SealedSecret | None) -> dict[str, Any]:
    """With the namespace that it has to be sealed for."""
    if secret is None:
        return {}
    uid = placement.tenant.namespace_uid
    namespace = {"namespaceUID": uid} if uid else {}
    binding = {"binding": secret.binding} if secret.binding else {}
    return {"secret": {"name": secret.name, "version": secret.version, "sealed": secret.sealed} | namespace | binding}
