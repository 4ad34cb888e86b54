"""What the benchmarks write: tenants' namespaces, GitOpsDeployments, and the Applications that a bare client writes."""

from __future__ import annotations

from services.common.kube import APPLICATION, GITOPS_DEPLOYMENT, NAMESPACE, AlreadyExists, KubeClient, Manifest

FIELD_MANAGER = "gitops-bench"
MANAGED_BY = {"app.kubernetes.io/managed-by": "gitops-bench"}


def tenants(prefix: str, count: int) -> list[str]:
    """Names of ``count`` namespaces."""
    return [f"{prefix}-{number:03d}" for number in range(count)]


async def create_namespaces(kube: KubeClient, names: list[str]) -> None:
    """Create the namespaces that do not exist."""
    for name in names:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await kube.create(NAMESPACE, manifest, field_manager=FIELD_MANAGER)
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


def application(namespace: str, name: str, tenant: str) -> Manifest:
    """An Application of the size that the product writes."""
    return {
        "apiVersion": APPLICATION.api_version,
        "kind": APPLICATION.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": MANAGED_BY | {"databaseID": name}},
        "spec": {
            "project": f"app-project-{tenant}",
            "source": deployment(tenant, name)["spec"]["source"],
            "destination": {"name": "in-cluster", "namespace": tenant},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
                "syncOptions": ["PrunePropagationPolicy=background"],
                "retry": {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}},
            },
        },
    }
