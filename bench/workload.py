"""What the benchmarks write: tenants' namespaces, GitOpsDeployments, and the Applications that a bare client writes."""

from __future__ import annotations

from datetime import datetime
from uuid import NAMESPACE_OID, uuid5

import orjson

from services.common.kubernetes import NAMESPACE, AlreadyExists, KubeClient, Manifest
from services.common.messages import Command, ResourceChanged
from services.common.ownership import MANAGED_BY
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT, GitOpsDeploymentSpec
from services.planner.domain.ids import resource_id, tenant_id
from services.planner.engines.argocd import applications
from services.planner.engines.interface import Placement
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant, TenantName

FIELD_MANAGER = "gitops-bench"
WORKSPACE = "bench"
"""Of what the bare client writes."""


def tenants(prefix: str, count: int) -> list[str]:
    """Names of ``count`` namespaces."""
    return [f"{prefix}-{number:03d}" for number in range(count)]


async def create_namespaces(kube: KubeClient, names: list[str]) -> None:
    """Create the namespaces that do not exist."""
    for name in names:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await kube.create_object(NAMESPACE, manifest, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            continue


def deployment(namespace: str, name: str) -> Manifest:
    """A GitOpsDeployment of ordinary size; all of a tenant's come from one repository, as is usual."""
    return {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "type": "automated",
            "source": {
                "repoURL": f"https://git.example.com/{namespace}/configuration.git",
                "path": f"environments/{name}",
                "targetRevision": "main",
            },
        },
    }


def seen_deployment(
    tenant: TenantName, name: str, at: datetime, *, resource_version: int = 1, generation: int = 1, epoch: int = 1
) -> Command:
    """What a watcher sends of a GitOpsDeployment that it sees; each generation has a path of its own."""
    workspace, namespace = tenant
    uid, namespace_uid = (str(uuid5(NAMESPACE_OID, each)) for each in (f"{namespace}/{name}", namespace))
    source = {"repoURL": f"https://git.example.com/{namespace}/config.git", "path": f"apps/{name}/{generation}"}
    event = ResourceChanged(
        GITOPS_DEPLOYMENT.api_version, GITOPS_DEPLOYMENT.kind, name, uid, str(resource_version), generation, epoch,
        deleting=False, finalizers=(), actor=FIELD_MANAGER, created_at=1_000,
        spec=orjson.dumps({"type": "automated", "source": source}).decode(),
    )  # fmt: skip
    return Command(workspace, workspace, namespace, at, event, namespace_uid, 1_000)


def application(engine_namespace: str, tenant: str, name: str) -> Manifest:
    """The Application that the product makes of ``deployment(tenant, name)``, without its mark.

    An agent would take one that bears it for an orphan.
    """
    uid = str(resource_id(WORKSPACE, f"{tenant}/{name}"))
    placement = Placement(
        Tenant(tenant_id(WORKSPACE, tenant), WORKSPACE, tenant, partition=0, engine_instance_id=engine_namespace),
        PlacementCandidate(engine_namespace, engine_namespace, accepting=True, engine=DEFAULT_ENGINE),
    )
    spec = GitOpsDeploymentSpec.model_validate(deployment(tenant, name)["spec"])
    manifest: Manifest = orjson.loads(applications.application(placement, resource_id(WORKSPACE, uid), uid, spec))
    manifest["metadata"]["labels"][MANAGED_BY] = FIELD_MANAGER
    return manifest
