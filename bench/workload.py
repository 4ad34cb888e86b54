"""What the benchmarks write: tenants' namespaces, GitOpsDeployments, and the Applications that a bare client writes."""

from __future__ import annotations

import orjson

from services.common.kubernetes import NAMESPACE, AlreadyExists, KubeClient, Manifest
from services.common.ownership import MANAGED_BY
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT, GitOpsDeploymentSpec
from services.planner.domain.ids import resource_id, tenant_id
from services.planner.engines.argocd import applications
from services.planner.engines.interface import Placement
from services.planner.rows import DEFAULT_ENGINE, EngineInstance, Tenant

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


def application(engine_namespace: str, tenant: str, name: str) -> Manifest:
    """The Application that the product makes of ``deployment(tenant, name)``, without its mark.

    An agent would take one that bears it for an orphan.
    """
    uid = str(resource_id(WORKSPACE, f"{tenant}/{name}"))
    placement = Placement(
        Tenant(tenant_id(WORKSPACE, tenant), WORKSPACE, tenant, partition=0, engine_instance_id=engine_namespace),
        EngineInstance(engine_namespace, engine_namespace, accepting=True, engine=DEFAULT_ENGINE),
    )
    spec = GitOpsDeploymentSpec.model_validate(deployment(tenant, name)["spec"])
    manifest: Manifest = orjson.loads(applications.application(placement, resource_id(WORKSPACE, uid), uid, spec))
    manifest["metadata"]["labels"][MANAGED_BY] = FIELD_MANAGER
    return manifest
